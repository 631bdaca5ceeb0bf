//! `holdfast-reclaimer`: gives requests whose lease has lapsed back to their queue.

use std::process::ExitCode;

use holdfast_reclaimer::{Config, start};
use holdfast_runtime as runtime;

fn main() -> ExitCode {
    runtime::main(Config::read, start)
}
