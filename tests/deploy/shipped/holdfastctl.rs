//! `holdfastctl`, as the image holds it.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdfast_cli::run(std::env::args_os())
}
