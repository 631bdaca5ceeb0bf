//! `holdfast-reclaimer`, as the image holds it.

use std::process::ExitCode;

use holdfast_reclaimer::{Config, start};

fn main() -> ExitCode {
    holdfast_runtime::main(Config::read, start)
}
