//! Benches with real processes: `cargo bench -p holdfast-tests --bench bench -- pickup`.
//!
//! # Layout
//!
//! Each bench is a module: [`pickup`]. They share `stage` (Redis and roles as processes), `gateway` (the stand-in,
//! a process of its own), `sleeper` (who waits for a bell), `machine` (what it ran on) and `times` (quantiles). A bench compares what it measures with a
//! floor that it measures in the same run, by turns: figures of a busy machine are then slow on both sides.
#![expect(clippy::expect_used, reason = "a bench that can't measure ends and says what failed")]

mod gateway;
mod machine;
mod pickup;
mod sleeper;
mod stage;
mod times;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// Benches with real processes
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// How long an idle system takes to call for a new request, and how fast one worker drains a queue
    Pickup(pickup::Args),
    /// A part of the floor, in a process of its own
    #[command(hide = true)]
    Sleeper {
        /// Where Redis listens
        port: u16,
    },
    /// What is called, in a process of its own
    #[command(hide = true)]
    Gateway {
        /// Where it takes calls
        port: u16,
        /// Where it tells of them
        line: u16,
    },
}

/// How a bench tells its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// One line of JSON with every sample.
    Json,
}

// One thread: the measuring side takes as little of the machine as it can.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // `cargo bench` says this to every bench.
    let arguments = std::env::args_os().filter(|argument| argument != "--bench");
    match Cli::parse_from(arguments).bench {
        Bench::Pickup(args) => pickup::run(&args).await,
        Bench::Sleeper { port } => sleeper::run(port).await,
        Bench::Gateway { port, line } => gateway::run(port, line).await,
    }
}
