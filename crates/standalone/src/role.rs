//! One role as a process of its own: the same libraries, the same frame as the roles' own programs.

use std::path::PathBuf;
use std::process::ExitCode;

use holdfast_runtime::{BoxError, Environment, Problems, Process, Services, Settings, frame};

use crate::cli::{self, RoleName};
use crate::console;

/// Runs the role until it is told to stop.
pub(crate) fn run(process: Process, args: cli::Role) -> ExitCode {
    use {
        holdfast_producer as producer, holdfast_reclaimer as reclaimer, holdfast_worker as worker,
    };
    let path = args.config;
    match args.role {
        RoleName::Producer => service(process, path, producer::Config::read, producer::start),
        RoleName::Worker => service(process, path, worker::Config::read, worker::start),
        RoleName::Reclaimer => service(process, path, reclaimer::Config::read, reclaimer::start),
    }
}

fn service<C: Send + 'static>(
    mut process: Process,
    path: PathBuf,
    read: fn(&Settings) -> Result<C, Problems>,
    start: impl AsyncFnOnce(C) -> Result<Services, BoxError>,
) -> ExitCode {
    let configured = process.prepare(move || {
        let settings = frame::load(Some(&path), &Environment::of_process());
        settings.and_then(|settings| Ok((read(&settings)?, settings.log)))
    });
    match configured {
        Ok(Ok((config, log))) => process.run(&log, async || start(config).await),
        Ok(Err(problems)) => console::unusable(&problems),
        Err(code) => code,
    }
}
