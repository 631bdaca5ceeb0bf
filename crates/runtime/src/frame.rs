//! The frame of a process: settings, logs, signals, drain, exit code.
//!
//! A service's `main.rs` is one call of [`main`]; whoever reads a command line of their own calls
//! [`process`].

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Command, value_parser};
use holdfast_core::metrics;
use holdfast_core::model::SCHEMA;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{error, info, warn};

use crate::settings::{Environment, LogSettings, Problems, Settings};
use crate::signals::Signals;
use crate::{BoxError, Chain, Services, Stop, logs};

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
pub fn main<C>(
    read: fn(&Settings) -> Result<C, Problems>,
    start: impl AsyncFnOnce(C) -> Result<Services, BoxError>,
) -> ExitCode {
    let environment = Environment::of_process();
    let path = match config_path(std::env::args_os(), &environment) {
        Ok(path) => path,
        Err(wrong) => {
            // Help and the version go to stdout and are no failure.
            let told = wrong.print().is_ok();
            return if told && !wrong.use_stderr() { ExitCode::SUCCESS } else { unusable() };
        }
    };
    match configured(path.as_deref(), &environment, read) {
        Ok((log, config)) => process(&log, async || start(config).await),
        Err(told) => {
            complain(&told);
            unusable()
        }
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

/// Reads and checks the settings; what is wrong comes back as one line.
fn configured<C>(
    path: Option<&Path>,
    environment: &Environment,
    read: fn(&Settings) -> Result<C, Problems>,
) -> Result<(LogSettings, C), String> {
    let unusable = |problems: Problems| format!("unusable settings: {problems}");
    let settings = load(path, environment).map_err(unusable)?;
    let config = read(&settings).map_err(unusable)?;
    Ok((settings.log, config))
}

/// Reads the settings file, if there is one, and checks it under the environment.
pub fn load(path: Option<&Path>, environment: &Environment) -> Result<Settings, Problems> {
    let text = match path {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|err| {
            let mut problems = Problems::default();
            // The kind alone: a file that is no UTF-8 would be quoted otherwise.
            let rule = format!("can't be read: {}", err.kind());
            problems.check(false, "the settings file", path.display(), &rule);
            problems
        })?,
    };
    Settings::load(&text, environment)
}

/// Runs services until a signal, with logs, metrics and a runtime of their own; says how to exit.
pub fn process(
    log: &LogSettings,
    start: impl AsyncFnOnce() -> Result<Services, BoxError>,
) -> ExitCode {
    match prepared(log) {
        Ok(runtime) => {
            let ended = runtime.block_on(live(start));
            // A name that is being looked up can't be interrupted: do not wait for it.
            runtime.shutdown_timeout(STUCK);
            ended
        }
        Err(err) => {
            complain(&format!("can't start: {}", Chain(&*err)));
            ExitCode::FAILURE
        }
    }
}

fn prepared(log: &LogSettings) -> Result<tokio::runtime::Runtime, BoxError> {
    logs::init(log)?;
    raise_file_limit();
    metrics::install()?;
    metrics::build_info(VERSION, SCHEMA);
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
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

/// From the first signal handler to the last task.
async fn live(start: impl AsyncFnOnce() -> Result<Services, BoxError>) -> ExitCode {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(err) => {
            error!(error = %err, "can't listen for signals");
            return ExitCode::FAILURE;
        }
    };
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
