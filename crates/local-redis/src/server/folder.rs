//! The folder of a private server, and what an earlier owner may have left in it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::{ANSWER_LIMIT, LOOK_AGAIN, StartError, process_id};
use crate::resp::{Link, Value};

/// The longest path that a unix socket can have on every system.
const SOCKET_PATH_MAX: usize = 103;
/// How many lines of the log an error tells.
const LOG_LINES: usize = 5;

/// The folder, absolute.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// Held as long as a folder is ours.
///
/// It is given back by word, not only closed: a child of another thread that is just being started has a copy of it for a
/// moment, which would keep the folder taken.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Where that fails, the end of the last copy gives it back.
        self.0.unlock().unwrap_or_default();
    }
}

impl Folder {
    /// Takes the folder; a new one is for its owner's eyes only, since it holds requests.
    pub(super) fn open(path: &Path) -> Result<Self, StartError> {
        let opened = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .and_then(|()| fs::canonicalize(path));
        opened.map(Self).map_err(StartError::io(format!("can't use the folder {}", path.display())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("redis.sock")
    }

    pub(super) fn check_socket_path(&self) -> Result<(), StartError> {
        let socket = self.socket();
        if socket.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(StartError::SocketPath { socket });
        }
        Ok(())
    }

    /// Makes the folder ours until the file is closed, and writes down who we are.
    pub(super) fn lock(&self) -> Result<Lock, StartError> {
        let path = self.0.join("owner");
        let failed = || StartError::io(format!("can't lock {}", path.display()));
        let lock = File::options().create(true).read(true).write(true).truncate(false).open(&path);
        let lock = lock.map_err(failed())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(&path).map_err(failed())?.trim().to_owned();
                return Err(StartError::InUse { folder: self.0.clone(), owner });
            }
            Err(TryLockError::Error(err)) => return Err(failed()(err)),
        }
        fs::write(&path, std::process::id().to_string()).map_err(failed())?;
        Ok(Lock(lock))
    }

    fn pid_file(&self) -> PathBuf {
        self.0.join("server.pid")
    }

    /// Writes down which process serves here, and on which port.
    pub(super) fn note_process(&self, pid: u32, port: u16) -> Result<(), StartError> {
        let path = self.pid_file();
        fs::write(&path, format!("{pid} {port}\n"))
            .map_err(StartError::io(format!("can't write {}", path.display())))
    }

    /// To be called once the process is gone. A file that can't be removed does no harm: the next start sees that
    /// nobody answers.
    pub(super) fn forget_process(&self) {
        fs::remove_file(self.pid_file()).unwrap_or_default();
    }

    /// Ends a server that an earlier owner left in this folder, if there is one.
    ///
    /// A process is only taken for that server if it answers on the noted port, gives the noted process id, and names
    /// this folder as its own. One that takes connections but does not say who it is may be it, as long as that process is
    /// there: two servers must not write the same files, so that is an error.
    pub(super) fn end_left_over(&self, limit: Duration) -> Result<(), StartError> {
        let Some((pid, port)) = self.noted_process() else { return Ok(()) };
        let may_be_it = || match is_there(pid) {
            true => Err(StartError::LeftOver { folder: self.0.clone(), pid }),
            false => Ok(()),
        };
        let mut link = match Link::open(port, ANSWER_LIMIT) {
            Err(err) if is_timeout(&err) => return may_be_it(),
            Err(_) => return Ok(()),
            Ok(link) => link,
        };
        match link.call(&["PING"]) {
            Err(err) if is_timeout(&err) => return may_be_it(),
            // It does not speak the language.
            Err(_) => return Ok(()),
            Ok(_) => {}
        }
        match process_id(&mut link).map(|other| other == pid) {
            None => return may_be_it(),
            Some(false) => return Ok(()),
            Some(true) => {}
        }
        match self.is_dir_of(&mut link) {
            None => return may_be_it(),
            Some(false) => return Ok(()),
            Some(true) => {}
        }

        // Its answer is the end of the connection.
        link.call(&["SHUTDOWN", "NOSAVE"]).map(drop).unwrap_or_default();
        let until = Instant::now() + limit;
        while !is_gone(pid, port) {
            if Instant::now() >= until {
                return may_be_it();
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn noted_process(&self) -> Option<(u32, u16)> {
        let noted = fs::read_to_string(self.pid_file()).ok()?;
        let (pid, port) = noted.trim().split_once(' ')?;
        Some((pid.parse().ok()?, port.parse().ok()?))
    }

    /// Whether the server behind a connection names this folder as its own; none if it names none.
    fn is_dir_of(&self, link: &mut Link) -> Option<bool> {
        let Ok(Value::Array(setting)) = link.call(&["CONFIG", "GET", "dir"]) else { return None };
        let [_, Value::Bytes(dir)] = setting.as_slice() else { return None };
        Some(dir == self.0.as_os_str().as_encoded_bytes())
    }

    /// A new log for a new process. The one before is kept, so that errors only tell of this one.
    pub(super) fn new_log(&self) -> io::Result<File> {
        let log = self.0.join("server.log");
        match fs::rename(&log, self.0.join("server.log.old")) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
            _ => File::create(log),
        }
    }

    /// The last lines of the server's log.
    pub(super) fn log_tail(&self) -> String {
        let text = match fs::read(self.0.join("server.log")) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(err) => return format!("no log: {err}"),
        };
        let mut last: Vec<&str> =
            text.lines().rev().filter(|line| !line.trim().is_empty()).take(LOG_LINES).collect();
        last.reverse();
        last.join(" | ")
    }
}

/// Whether nobody listens where the process did, or another. One that is slow to write its last, or ends a connection
/// without a word, is still there: until its port is closed it may write.
fn is_gone(pid: u32, port: u16) -> bool {
    match Link::open(port, ANSWER_LIMIT) {
        Err(err) => err.kind() == io::ErrorKind::ConnectionRefused,
        Ok(mut link) => process_id(&mut link).is_some_and(|other| other != pid),
    }
}

/// Whether a process of this id is there, whoever's it is.
fn is_there(pid: u32) -> bool {
    // 0 and what is negative would be groups.
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

fn is_timeout(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
