//! A server that belongs to one owner: started, watched and ended by it.

mod folder;
mod options;
mod unwritten;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use self::folder::{Folder, Lock};
pub use self::options::{AppendFsync, Options};
pub use self::unwritten::Unwritten;
use crate::port::free_port;
use crate::resp::{Link, Value};
use crate::tied::{self, Tied};

/// How often another free port is drawn when somebody else was faster.
const PORT_TRIES: usize = 10;
/// How long a port that was asked for may be another's at the start.
const PORT_PATIENCE: Duration = Duration::from_secs(2);
/// The pause between two tries for one port.
const TRY_AGAIN: Duration = Duration::from_millis(50);
/// How long a server that was left behind has to end.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How long one question to the server may take.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// How often it is said that a server still reads its data.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How long an answer is awaited between two looks at the process.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Why a private server is not there.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder belongs to a running owner.
    #[error("{} is in use by process {owner}", folder.display())]
    InUse {
        /// The server's folder.
        folder: PathBuf,
        /// The process that holds it, as it wrote there.
        owner: String,
    },
    /// A server that an earlier owner left behind is still there and could not be ended.
    #[error("an earlier server, process {pid}, still runs in {} and does not end: end it first, or remove server.pid there if that \
        process is something else", folder.display())]
    LeftOver {
        /// The server's folder.
        folder: PathBuf,
        /// The server.
        pid: u32,
    },
    /// The path of the unix socket would be longer than the system allows.
    #[error("{} is too long a path for a unix socket: choose a shorter folder", socket.display())]
    SocketPath {
        /// The socket.
        socket: PathBuf,
    },
    /// The folder, the binary or the port could not be used.
    #[error("{what}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The server ended instead of answering.
    #[error("the server ended ({status}): {log}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// Whoever waited for the server to read its data no longer wants it.
    #[error("the server was still reading its data when it was no longer wanted")]
    GivenUp,
    /// The server runs, but does not serve.
    #[error("the server did not answer within {} s: {log}", limit.as_secs())]
    NotReady {
        /// How long it was given.
        limit: Duration,
        /// The last lines of its log.
        log: String,
    },
}

impl StartError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what: what.into(), source }
    }
}

/// Why a server did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It went on, and was killed.
    #[error("the server did not end within {} s and was killed", limit.as_secs())]
    Killed {
        /// How long it was given.
        limit: Duration,
    },
    /// Something else ended it meanwhile.
    #[error("the server ended out of order ({status})")]
    OutOfOrder {
        /// How it ended.
        status: ExitStatus,
    },
    /// It could not be ended.
    #[error("the server could not be ended")]
    Io(#[from] io::Error),
}

/// A running server in a folder of its own. Dropped, it is killed.
#[derive(Debug)]
pub struct PrivateServer {
    options: Options,
    folder: Folder,
    port: u16,
    process: Tied,
    /// Held as long as the folder is ours.
    _lock: Lock,
}

/// Asked every few seconds while a server reads its data, with the time that this took so far: whether to go on.
pub type OnLoading<'a> = &'a mut dyn FnMut(Duration) -> bool;

/// What is seen of a server that was started.
enum Seen {
    /// It serves.
    Serving,
    /// It reads its data, which takes as long as they are many.
    Loading,
    /// Neither, so far.
    Nothing,
}

/// What one try to start a server led to.
enum Launched {
    Ready(Tied),
    /// Somebody else listens on the port.
    PortTaken,
}

impl PrivateServer {
    /// Starts a server and waits until it serves.
    ///
    /// The folder is made if need be and then belongs to this owner alone. A server that an earlier owner left there
    /// is ended first.
    pub fn start(options: Options) -> Result<Self, StartError> {
        Self::start_while(options, &mut |_| true)
    }

    /// The same; `on_loading` is told while the server reads its data, and may give up.
    pub fn start_while(options: Options, on_loading: OnLoading<'_>) -> Result<Self, StartError> {
        let folder = Folder::open(&options.dir)?;
        if options.unix_socket {
            folder.check_socket_path()?;
        }
        let lock = folder.lock()?;
        folder.end_left_over(END_LIMIT)?;

        let (process, port) = match options.port {
            Some(port) => (launch_on(&options, &folder, port, PORT_PATIENCE, on_loading)?, port),
            None => launch_anywhere(&options, &folder, on_loading)?,
        };
        // Only now: one that could not read the data has not written them.
        if let Some(noted) = &options.noted {
            noted.leave(folder.path()).map_err(StartError::io("can't note which server wrote"))?;
        }
        Ok(Self { options, folder, port, process, _lock: lock })
    }

    /// Where the server listens, as clients want it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The server's unix socket as clients want it, if it has one.
    pub fn unix_url(&self) -> Option<String> {
        self.options.unix_socket.then(|| format!("redis+unix://{}", self.folder.socket().display()))
    }

    /// The server's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The server's folder, absolute.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.ended(), Ok(None))
    }

    /// Ends the server in order: everything it has acknowledged is written, unless [`unwritten`](Self::unwritten) says
    /// that it can't be. After `limit` it is killed, which is an error: it may have had something to write.
    pub fn stop(&mut self, limit: Duration) -> Result<(), StopError> {
        if !self.is_running() {
            return self.kill();
        }
        // Its answer is the end of the connection; whether it obeyed is seen by the process.
        let asked = Link::open(self.port, ANSWER_LIMIT.min(limit));
        asked.and_then(|mut link| link.call(&["SHUTDOWN", "NOSAVE"])).map(drop).unwrap_or_default();
        let ended = self.process.wait_within(limit)?;
        self.kill()?;
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(StopError::OutOfOrder { status }),
            None => Err(StopError::Killed { limit }),
        }
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) -> Result<(), StopError> {
        self.process.kill()?;
        self.folder.forget_process();
        Ok(())
    }

    /// Starts the server again on its port and folder; one that still runs is stopped first.
    pub fn restart(&mut self) -> Result<(), StartError> {
        self.restart_while(&mut |_| true)
    }

    /// The same; `on_loading` is told while the server reads its data, and may give up.
    pub fn restart_while(&mut self, on_loading: OnLoading<'_>) -> Result<(), StartError> {
        let patience = self.options.ready_within;
        self.stop(patience).map_err(|err| StartError::io("no restart")(io::Error::other(err)))?;
        self.process = launch_on(&self.options, &self.folder, self.port, patience, on_loading)?;
        Ok(())
    }
}

/// Starts the process on a port that nobody else has.
fn launch_anywhere(
    options: &Options,
    folder: &Folder,
    on_loading: OnLoading<'_>,
) -> Result<(Tied, u16), StartError> {
    for _ in 0..PORT_TRIES {
        let port = free_port().map_err(StartError::io("no free port"))?;
        if let Launched::Ready(process) = launch(options, folder, port, on_loading)? {
            return Ok((process, port));
        }
    }
    Err(StartError::io("no free port")(ErrorKind::AddrInUse.into()))
}

/// Starts the process on this very port, which a server that is just dying may still hold.
fn launch_on(
    options: &Options,
    folder: &Folder,
    port: u16,
    patience: Duration,
    on_loading: OnLoading<'_>,
) -> Result<Tied, StartError> {
    let until = Instant::now() + patience;
    loop {
        match launch(options, folder, port, on_loading)? {
            Launched::Ready(process) => return Ok(process),
            Launched::PortTaken if Instant::now() >= until => return Err(port_taken(port)),
            Launched::PortTaken => thread::sleep(TRY_AGAIN),
        }
    }
}

fn port_taken(port: u16) -> StartError {
    StartError::io(format!("port {port} on 127.0.0.1 is taken"))(ErrorKind::AddrInUse.into())
}

/// Starts the process and waits until it serves.
///
/// The time until it is ready begins anew as long as it says that it reads its data: killed over that, it would never get
/// further at any later start.
fn launch(
    options: &Options,
    folder: &Folder,
    port: u16,
    on_loading: OnLoading<'_>,
) -> Result<Launched, StartError> {
    let mut command = tied::command(&options.binary);
    options.fill(&mut command, folder, port)?;
    let mut process = Tied::spawn(command)
        .map_err(StartError::io(format!("can't run {}", options.binary.display())))?;
    folder.note_process(process.pid(), port)?;

    let began = Instant::now();
    let (mut until, mut say_at) = (began + options.ready_within, began + SAY_EVERY);
    loop {
        if let Some(status) = process.ended().map_err(StartError::io("lost sight of the server"))? {
            folder.forget_process();
            let log = folder.log_tail();
            let taken = log.contains("Address already in use");
            return if taken {
                Ok(Launched::PortTaken)
            } else {
                Err(StartError::Ended { status, log })
            };
        }
        let (seen, now) = (look_at(port, process.pid()), Instant::now());
        match seen {
            Seen::Serving => return Ok(Launched::Ready(process)),
            Seen::Loading if now >= say_at => {
                say_at = now + SAY_EVERY;
                if !on_loading(began.elapsed()) {
                    return Err(StartError::GivenUp);
                }
                until = now + options.ready_within;
            }
            Seen::Loading => until = now + options.ready_within,
            Seen::Nothing if now >= until => {
                let log = folder.log_tail();
                return Err(StartError::NotReady { limit: options.ready_within, log });
            }
            Seen::Nothing => {}
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Whether this very process answers on the port, and whether it has read its data.
fn look_at(port: u16, pid: u32) -> Seen {
    let Ok(mut link) = Link::open(port, ANSWER_LIMIT) else { return Seen::Nothing };
    let seen = match link.call(&["PING"]) {
        Ok(Value::Simple(word)) if word == "PONG" => Seen::Serving,
        Ok(Value::Error(text)) if text.starts_with("LOADING") => Seen::Loading,
        // It asks for a password that the caller set: it serves, but not us.
        Ok(Value::Error(text)) if text.starts_with("NOAUTH") => return Seen::Serving,
        _ => return Seen::Nothing,
    };
    if process_id(&mut link) == Some(pid) { seen } else { Seen::Nothing }
}

/// The process id that the server behind a connection gives.
pub(crate) fn process_id(link: &mut Link) -> Option<u32> {
    let Ok(Value::Bytes(info)) = link.call(&["INFO", "server"]) else { return None };
    let info = String::from_utf8_lossy(&info);
    info.lines().find_map(|line| line.trim_end().strip_prefix("process_id:")?.parse().ok())
}

#[cfg(test)]
mod tests;
