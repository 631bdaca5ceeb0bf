//! `holdfast`: every role in one process over a private Redis, and a demonstration of what a crash costs.
//!
//! # Layout
//!
//! - `cli` is the command line.
//! - `up` runs all roles in one process: `up::draft` lays its defaults under the settings, `private_redis` finds and
//!   keeps the server, `up::greeting` is what it says once it runs.
//! - `demo` runs the roles as processes of their own, by way of `role`, which is this program again; kills one and
//!   freezes another; and keeps a ledger.
//! - `stand_in` is the inference server that computes nothing, as a process, for roles that run on their own.
//! - `console` is how all of them speak to whoever started them.

mod cli;
mod console;
mod demo;
mod private_redis;
mod role;
mod stand_in;
mod up;

use std::process::ExitCode;

use clap::Parser;
use holdfast_runtime::Process;

use cli::{Cli, Command};

/// Runs `holdfast` as its command line says.
///
/// Exit codes: 0 if it went well, 64 for a command line or settings that can't be used, 1 for everything else.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli { command: Command::Up(args) }) => begun(|process| up::run(process, args)),
        Ok(Cli { command: Command::Demo(args) }) => demo::run(&args),
        Ok(Cli { command: Command::StandIn(args) }) => {
            begun(|process| stand_in::run(process, &args))
        }
        Ok(Cli { command: Command::Role(args) }) => begun(|process| role::run(process, args)),
        Err(wrong) => console::usage(&wrong),
    }
}

/// Runs what a signal asks to end.
fn begun(run: impl FnOnce(Process) -> ExitCode) -> ExitCode {
    match Process::begin() {
        Ok(process) => run(process),
        Err(code) => code,
    }
}
