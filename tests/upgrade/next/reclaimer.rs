//! `holdfast-reclaimer` of a version to come.

use std::process::ExitCode;

use holdfast_reclaimer::{Config, start};

fn main() -> ExitCode {
    holdfast_runtime::main(Config::read, start)
}
