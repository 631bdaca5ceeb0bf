//! The frame of a process: signals, settings, logs, drain, exit code.
//!
//! A service's `main.rs` is one call of [`main`]; whoever reads a command line of their own begins
//! with [`Process::begin`].

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{Arg, Command, value_parser};
use holdfast_core::metrics;
use holdfast_core::model::SCHEMA;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use crate::settings::{Environment, LogFormat, LogSettings, Problems, Settings};
use crate::signals::Signals;
use crate::{BoxError, Chain, Services, Stop, logs, unread};

/// The settings can't be used (`EX_USAGE`).
const UNUSABLE_SETTINGS: u8 = 64;

/// How long a thread that is stuck in a call of the system may hold up the end.
const STUCK: Duration = Duration::from_millis(500);

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs a service: reads the settings, starts it, runs it until a signal, drains it.
///
/// Exit codes: 0 after a signal and a clean drain, 64 for settings that can't be used (one line on
/// stderr holds every fault), 1 for everything else.
pub fn main<C: Send + 'static>(
    read: fn(&Settings) -> Result<C, Problems>,
    start: impl AsyncFnOnce(C) -> Result<Services, BoxError>,
) -> ExitCode {
    let begun = Process::begin().and_then(|mut process| {
        let (log, config) = process.prepare(move || configured(read))??;
        Ok((process, log, config))
    });
    match begun {
        Ok((process, log, config)) => process.run(&log, async || start(config).await),
        Err(code) => code,
    }
}

fn unusable() -> ExitCode {
    ExitCode::from(UNUSABLE_SETTINGS)
}

/// One line for whoever started us. If nobody reads it, the exit code says it all the same.
fn complain(told: &str) {
    let _ = writeln!(std::io::stderr(), "{told}");
}

/// The settings file that was asked for.
fn config_path(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &Environment,
) -> Result<Option<PathBuf>, clap::Error> {
    let config = Arg::new("config")
        .long("config")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .help("The settings file; HOLDFAST_CONFIG names it as well");
    let mut arguments = arguments.into_iter().peekable();
    let called = arguments.peek().map(PathBuf::from);
    let name = called.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let name = name.unwrap_or("holdfast").to_owned();
    let command = Command::new("holdfast").display_name(name.clone()).bin_name(name);
    let command = command.version(VERSION).arg(config);
    let given = command.try_get_matches_from(arguments)?;
    let named = || environment.config().map(PathBuf::from);
    Ok(given.get_one::<PathBuf>("config").cloned().or_else(named))
}

/// What the command line and the settings say; else how to exit.
fn configured<C>(read: fn(&Settings) -> Result<C, Problems>) -> Result<(LogSettings, C), ExitCode> {
    let environment = Environment::of_process();
    let path = config_path(std::env::args_os(), &environment).map_err(|wrong| {
        // Help and the version go to stdout and are no failure.
        let told = wrong.print().is_ok();
        if told && !wrong.use_stderr() { ExitCode::SUCCESS } else { unusable() }
    })?;
    let settings = load(path.as_deref(), &environment);
    let configured = settings.and_then(|settings| Ok((read(&settings)?, settings.log)));
    let (config, log) = configured.map_err(|problems| {
        complain(&format!("unusable settings: {problems}"));
        unusable()
    })?;
    Ok((log, config))
}

/// Reads the settings file, if there is one, and checks it under the environment.
pub fn load(path: Option<&Path>, environment: &Environment) -> Result<Settings, Problems> {
    Settings::load(&text(path)?, environment)
}

/// The text of the settings file, if there is one. One that can't be read is told by its whole path: it may have been looked
/// for in another folder than was meant.
pub fn text(path: Option<&Path>) -> Result<String, Problems> {
    let Some(path) = path else { return Ok(String::new()) };
    std::fs::read_to_string(path).map_err(|err| {
        let mut problems = Problems::default();
        // The kind alone: a file that is no UTF-8 would be quoted otherwise.
        let rule = format!("can't be read: {}", unread::in_words(err.kind()));
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        problems.check(false, "the settings file", whole.display(), &rule);
        problems
    })
}

/// A process from its first moment on: a signal does not kill it, but asks it to end.
pub struct Process {
    runtime: Runtime,
    signals: Signals,
}

/// How many threads serve: one for every two cores.
///
/// What a role does for a request is short and mostly waiting. In an idle process each further thread is woken beside the
/// one that has something to do, and what it takes over has to be fetched from the other core: on two cores one thread
/// answers a lone submit in three quarters of the time of two, and drains a full queue no slower.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

impl Process {
    /// Begins to listen for signals: to be called before anything else. Else says how to exit, and
    /// has told why.
    pub fn begin() -> Result<Self, ExitCode> {
        let begun = || -> std::io::Result<Self> {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads())
                .enable_all()
                .build()?;
            let signals = {
                let _inside = runtime.enter();
                Signals::listen()?
            };
            Ok(Self { runtime, signals })
        };
        begun().map_err(|err| failed("can't listen for signals", &err))
    }

    /// Does what comes before the services, such as reading the settings, and gives what it gives.
    ///
    /// It may block for as long as it likes: a signal ends the process meanwhile, and leaves it where it is. Then,
    /// as when it panics, the exit code comes back.
    pub fn prepare<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ExitCode> {
        // What came too late is dropped outside of the runtime: it may hold one of its own.
        let (done, mut doing) = oneshot::channel();
        // A thread of the runtime's own would be waited for at the end.
        let thread = thread::Builder::new().name("prepare".to_owned());
        // Nobody listens any more: then nobody wants it.
        let started = thread.spawn(move || drop(done.send(work())));
        started.map_err(|err| failed("can't start", &err))?;
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                signal = self.signals.next() => {
                    complain(&format!("stopped by {signal} before the start"));
                    Err(ExitCode::SUCCESS)
                }
                // It panicked, and has told so.
                done = &mut doing => done.map_err(|_| ExitCode::FAILURE),
            }
        })
    }

    /// Runs services until a signal, with logs and metrics; says how to exit.
    pub fn run(
        self,
        log: &LogSettings,
        start: impl AsyncFnOnce() -> Result<Services, BoxError>,
    ) -> ExitCode {
        if let Err(err) = prepared(log) {
            return failed("can't start", &*err);
        }
        let Self { runtime, signals } = self;
        // A log that goes elsewhere, or is for machines, is not where whoever started us looks.
        let is_seen = log.format == LogFormat::Pretty && std::io::stdout().is_terminal();
        let start = async || {
            let tell = |err: &BoxError| complain(&format!("can't start: {}", Chain(&**err)));
            start().await.inspect_err(|err| {
                if !is_seen {
                    tell(err)
                }
            })
        };
        let ended = runtime.block_on(live(start, signals));
        // A name that is being looked up can't be interrupted: do not wait for it.
        runtime.shutdown_timeout(STUCK);
        logs::flush();
        ended
    }
}

/// Says on stderr what could not be done.
fn failed(what: &str, err: &(dyn std::error::Error + 'static)) -> ExitCode {
    complain(&format!("{what}: {}", Chain(err)));
    ExitCode::FAILURE
}

fn prepared(log: &LogSettings) -> Result<(), BoxError> {
    logs::init(log)?;
    raise_file_limit();
    metrics::install()?;
    metrics::build_info(VERSION, SCHEMA);
    Ok(())
}

/// Every connection takes a file, and the soft limit of many systems is 1024.
fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(err) = raised {
        warn!(error = %err, "the limit of open files stays as it is");
    }
}

/// From the start of the first task to the end of the last.
async fn live(
    start: impl AsyncFnOnce() -> Result<Services, BoxError>,
    mut signals: Signals,
) -> ExitCode {
    let stop = Stop::default();
    tokio::select! {
        code = run(start, &stop) => code,
        never = signals.forward(&stop) => match never {},
    }
}

async fn run(start: impl AsyncFnOnce() -> Result<Services, BoxError>, stop: &Stop) -> ExitCode {
    let started = tokio::select! {
        biased;
        () = stop.drain.cancelled() => {
            info!("stopped while starting");
            return ExitCode::SUCCESS;
        }
        started = start() => started,
    };
    let services = match started {
        Ok(services) => services,
        Err(err) => {
            error!(error = %Chain(&*err), "can't start");
            return ExitCode::FAILURE;
        }
    };
    info!(version = VERSION, "started");
    match services.run(stop).await {
        Ok(()) => {
            info!("ended");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            error!(error = %Chain(&failure), "ended");
            ExitCode::FAILURE
        }
    }
}
