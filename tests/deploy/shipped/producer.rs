//! `holdfast-producer`, as the image holds it.

use std::process::ExitCode;

use holdfast_producer::{Config, start};

fn main() -> ExitCode {
    holdfast_runtime::main(Config::read, start)
}
