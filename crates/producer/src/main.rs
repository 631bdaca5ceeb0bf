//! `holdfast-producer`: takes requests over HTTP and tells how they ended.

use std::process::ExitCode;

use holdfast_producer::{Config, start};

fn main() -> ExitCode {
    holdfast_runtime::main(Config::read, start)
}
