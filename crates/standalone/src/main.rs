//! `holdfast`: everything in one process, and a demonstration in many.

use std::process::ExitCode;

fn main() -> ExitCode {
    holdfast_standalone::main()
}
