//! One role as a process of its own: the same libraries, the same frame as the roles' own programs.

use std::path::Path;
use std::process::ExitCode;

use holdfast_runtime::{BoxError, Environment, Problems, Services, Settings, frame};

use crate::cli::{self, RoleName};
use crate::console;

/// Runs the role until it is told to stop.
pub(crate) fn run(args: &cli::Role) -> ExitCode {
    let path = args.config.as_path();
    match args.role {
        RoleName::Producer => {
            service(path, holdfast_producer::Config::read, holdfast_producer::start)
        }
        RoleName::Worker => service(path, holdfast_worker::Config::read, holdfast_worker::start),
        RoleName::Reclaimer => {
            service(path, holdfast_reclaimer::Config::read, holdfast_reclaimer::start)
        }
    }
}

fn service<C>(
    path: &Path,
    read: fn(&Settings) -> Result<C, Problems>,
    start: impl AsyncFnOnce(C) -> Result<Services, BoxError>,
) -> ExitCode {
    let settings = frame::load(Some(path), &Environment::of_process());
    match settings.and_then(|settings| Ok((read(&settings)?, settings.log))) {
        Ok((config, log)) => frame::process(&log, async || start(config).await),
        Err(problems) => console::unusable(&problems),
    }
}
