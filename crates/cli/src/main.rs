//! `holdfastctl`: submits requests, tells how they are, and looks into the queues.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdfast_cli::run(std::env::args_os())
}
