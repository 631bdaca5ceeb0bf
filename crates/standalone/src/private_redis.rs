//! The private Redis: found or fetched, started in a folder of its own, and kept running.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_local_redis::{
    AppendFsync, Options, PrivateServer, Resolver, StartError, StopError, Unresolved, Unwritten,
    WrittenBy, default_cache,
};
use holdfast_runtime::Chain;
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::cli;
use crate::console::say;

/// How long it may take to write everything and end.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How long its disk may take to have room again before it is ended all the same; and how often that is said.
const WRITE_LIMIT: Duration = Duration::from_secs(20);
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How often it is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A server that ends more often than this within the window is not helped by another start.
const MOST_RESTARTS: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);

/// Why there is no private Redis.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoRedis {
    /// No binary that could be run.
    #[error(transparent)]
    Unresolved(Unresolved),
    /// Only one that may not understand the data.
    #[error("{0}; name it by --redis-server, or another folder by --data")]
    CannotRead(Unresolved),
    /// Somebody else runs one in this folder.
    #[error("{} is in use by process {owner}: stop that one first, or name another folder by --data", folder.display())]
    InUse { folder: PathBuf, owner: String },
    /// It does not start.
    #[error("the private redis does not start")]
    Start(#[source] StartError),
}

/// Why the private Redis was given up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// It does not start again.
    #[error("the private redis ended and does not start again")]
    Restart(#[source] StartError),
    /// It starts, and ends again.
    #[error("the private redis ended {MOST_RESTARTS} times within {} s", WINDOW.as_secs())]
    TooOften,
    /// The thread that should have started it failed.
    #[error("the private redis ended, and nobody could start it again")]
    Thread(#[source] JoinError),
}

/// Why the end of the private Redis was not as it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStopped {
    /// It could not write what it had answered for.
    #[error(
        "LOST: the private redis could not write to {} and is closed: \
        the newest accepted requests and results were only in its memory",
        folder.display()
    )]
    Unwritten { folder: PathBuf },
    /// It did not end in order: what it still had to write is not known.
    #[error("the newest accepted requests and results may be LOST")]
    Stop(#[from] StopError),
}

impl From<Unresolved> for NoRedis {
    fn from(err: Unresolved) -> Self {
        match err {
            Unresolved::CannotRead { .. } => Self::CannotRead(err),
            other => Self::Unresolved(other),
        }
    }
}

impl From<StartError> for NoRedis {
    fn from(err: StartError) -> Self {
        match err {
            StartError::InUse { folder, owner } => Self::InUse { folder, owner },
            other => Self::Start(other),
        }
    }
}

/// Finds or fetches a server, and runs it in `dir`.
pub(crate) fn start(
    wanted: &cli::Server,
    dir: &Path,
    appendfsync: AppendFsync,
) -> Result<PrivateServer, NoRedis> {
    let resolver = Resolver {
        explicit: wanted.redis_server.clone(),
        search_path: wanted.search_path(),
        // Without a home folder, what is fetched is kept beside the data.
        cache: default_cache().unwrap_or_else(|| dir.join("server")),
    };
    let found = resolver.resolve_for(dir, &mut |line| say(format_args!("redis: {line}")))?;
    let mut options = Options::new(&found.path, dir);
    options.noted = Some(WrittenBy::from(&found));
    options.appendfsync = appendfsync;
    // A folder may lie deeper than the path of a unix socket may be long.
    options.unix_socket = false;
    let on_loading = &mut |so_far: Duration| {
        say(format_args!("redis: still reading its data, {} s so far", so_far.as_secs()));
        true
    };
    Ok(PrivateServer::start_while(options, on_loading)?)
}

/// A private server, shared between whoever keeps it running and whoever stops it at last.
#[derive(Clone)]
pub(crate) struct Kept(Arc<Mutex<PrivateServer>>);

impl Kept {
    pub(crate) fn new(server: PrivateServer) -> Self {
        Self(Arc::new(Mutex::new(server)))
    }

    /// Its url.
    pub(crate) fn url(&self) -> String {
        self.server().url()
    }

    /// Its folder, absolute.
    pub(crate) fn dir(&self) -> PathBuf {
        self.server().dir().to_owned()
    }

    /// Ends it in order: everything that it has acknowledged is written, or that it is not is told.
    pub(crate) fn stop(&self) -> Result<(), NotStopped> {
        self.stop_within(WRITE_LIMIT, STOP_LIMIT)
    }

    /// The same, with so long to write before it is told to end, and so long to obey.
    fn stop_within(&self, write: Duration, obey: Duration) -> Result<(), NotStopped> {
        let mut server = self.server();
        let (until, mut say_at) = (Instant::now() + write, Instant::now());
        let mut unwritten = server.unwritten();
        while let Some(what) = unwritten
            && Instant::now() < until
        {
            if what != Unwritten::Waiting && Instant::now() >= say_at {
                say_at = Instant::now() + SAY_EVERY;
                warn_of(what, server.dir(), until.saturating_duration_since(Instant::now()));
            }
            thread::sleep(LOOK_EVERY);
            unwritten = server.unwritten();
        }
        let stopped = server.stop(obey);
        match unwritten {
            Some(Unwritten::Failed) => {
                Err(NotStopped::Unwritten { folder: server.dir().to_owned() })
            }
            // It obeyed: then it has written what it still had, or nothing was left.
            Some(Unwritten::Waiting | Unwritten::Untold) | None => Ok(stopped?),
        }
    }

    /// Looks after it until `stop`: one that ends is started again on its data.
    pub(crate) async fn keep(self, stop: CancellationToken) -> Result<(), Lost> {
        let mut restarts: Vec<Instant> = Vec::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if self.server().is_running() {
                continue;
            }
            restarts.retain(|restart| restart.elapsed() < WINDOW);
            if restarts.len() >= MOST_RESTARTS {
                return Err(Lost::TooOften);
            }
            restarts.push(Instant::now());
            warn!("the private redis ended: starting it again on its data");
            let (kept, stopped) = (self.clone(), stop.clone());
            let restarted = spawn_blocking(move || kept.restart(&stopped)).await;
            match restarted.map_err(Lost::Thread)? {
                Err(StartError::GivenUp) => return Ok(()),
                restarted => restarted.map_err(Lost::Restart)?,
            }
        }
    }

    /// Starts it again. Nobody waits at the end until it has read its data: what is on the disk stays there.
    fn restart(&self, stop: &CancellationToken) -> Result<(), StartError> {
        self.server().restart_while(&mut |so_far| {
            warn!(seconds = so_far.as_secs(), "the private redis still reads its data");
            !stop.is_cancelled()
        })
    }

    /// A panic elsewhere leaves the handle as it was: the server must still be stopped.
    fn server(&self) -> MutexGuard<'_, PrivateServer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says why its end is waited for.
fn warn_of(unwritten: Unwritten, folder: &Path, left: Duration) {
    let (folder, ends_in_seconds) = (folder.display(), left.as_secs());
    if unwritten == Unwritten::Failed {
        error!(
            %folder,
            ends_in_seconds,
            "the private redis can't write, its disk may be full: the newest accepted requests are only in its memory; make \
            room to keep them"
        );
    } else {
        error!(
            %folder,
            ends_in_seconds,
            "the private redis does not answer, its disk may hang or a script keep it busy: the newest accepted requests may be only in its memory"
        );
    }
}

/// Says what went wrong at the very end; gives the exit code, which until then was `ended`.
pub(crate) fn note_stop(stopped: Result<(), NotStopped>, ended: ExitCode) -> ExitCode {
    let Err(err) = stopped else { return ended };
    error!(error = %Chain(&err), "the private redis did not end well");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    const SOON: Duration = Duration::from_millis(500);

    #[test]
    fn one_that_hangs_at_the_end_is_killed_and_that_is_told_as_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = cli::Server { redis_server: None, search_path: std::env::var_os("PATH") };
        let server = start(&wanted, dir.path(), AppendFsync::EverySecond).unwrap();
        let pid = Pid::from_raw(server.pid().try_into().unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        let told = Kept::new(server).stop_within(SOON, SOON);
        let why = Chain(told.as_ref().unwrap_err()).to_string();
        assert!(why.contains("may be LOST") && why.contains("was killed"), "{why}");
        assert_eq!(note_stop(told, ExitCode::SUCCESS), ExitCode::FAILURE);
    }
}
