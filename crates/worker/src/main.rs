//! `holdfast-worker`: leases requests, calls the gateway, settles the outcome.

use std::process::ExitCode;

use holdfast_worker::{Config, start};

fn main() -> ExitCode {
    holdfast_runtime::main(Config::read, start)
}
