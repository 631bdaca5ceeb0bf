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
    /// It could not be ended.
    #[error("the private redis was not stopped")]
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
    Ok(PrivateServer::start(options)?)
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
        let mut server = self.server();
        let (until, mut say_at) = (Instant::now() + WRITE_LIMIT, Instant::now());
        let mut unwritten = server.unwritten();
        while unwritten.is_some() && Instant::now() < until {
            if unwritten == Some(Unwritten::Failed) && Instant::now() >= say_at {
                say_at += SAY_EVERY;
                let (folder, left) = (server.dir().display(), until - Instant::now());
                error!(
                    folder = %folder,
                    ends_in_seconds = left.as_secs(),
                    "the private redis can't write, its disk may be full: the newest accepted requests are only in its \
                    memory; make room to keep them"
                );
            }
            thread::sleep(LOOK_EVERY);
            unwritten = server.unwritten();
        }
        server.stop(STOP_LIMIT)?;
        match unwritten {
            Some(Unwritten::Failed) => {
                Err(NotStopped::Unwritten { folder: server.dir().to_owned() })
            }
            Some(Unwritten::Waiting) | None => Ok(()),
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
            let kept = self.clone();
            let restarted = spawn_blocking(move || kept.server().restart()).await;
            restarted.map_err(Lost::Thread)?.map_err(Lost::Restart)?;
        }
    }

    /// A panic elsewhere leaves the handle as it was: the server must still be stopped.
    fn server(&self) -> MutexGuard<'_, PrivateServer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what went wrong at the very end; gives the exit code, which until then was `ended`.
pub(crate) fn note_stop(stopped: Result<(), NotStopped>, ended: ExitCode) -> ExitCode {
    let Err(err) = stopped else { return ended };
    error!(error = %Chain(&err), "the private redis did not end well");
    ExitCode::FAILURE
}
