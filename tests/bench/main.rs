//! Benches with real processes: `just bench`, or one part: `just bench protocol`.
//!
//! # Layout
//!
//! Each part is a module that gives a [`report::Report`]: [`protocol`] (the scripts beside raw Redis and other queues),
//! [`endtoend`] (the whole way beside a bare forwarder), [`latency`] (one request alone), [`recovery`] (a worker is killed), [`growth`]
//! (backlogs, workers, shards), [`memory`] (what a request takes) and [`idle`] (what no request takes). [`pickup`] is a bench of
//! its own. They share `report` (rows, targets, tables), `server` (what a Redis has spent), `spending` and `cpu` (what a process
//! takes), `distance` (a round trip put between), `stage` and `fleet` (Redis and roles as processes), `gateway` (the stand-in, a process
//! of its own), `caller` (who calls it or us), `sleeper` (who waits for a bell), `machine` (what it ran on) and `times` (quantiles). A
//! bench compares what it measures with a floor that it measures in the same run, by turns: figures of
//! a busy machine are then slow on both sides.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a bench that can't measure ends and says what failed"
)]

mod caller;
mod cpu;
mod distance;
mod endtoend;
mod fleet;
mod gateway;
mod growth;
mod idle;
mod latency;
mod machine;
mod memory;
mod pickup;
mod protocol;
mod recovery;
mod report;
mod server;
mod sleeper;
mod spending;
mod stage;
mod times;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use report::Report;

/// Benches with real processes
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(subcommand)]
    bench: Option<Bench>,
    /// How the figures are printed
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    output: Output,
}

#[derive(Clone, Debug, Subcommand)]
enum Bench {
    /// Every part but pickup, one after another; also without a word
    All,
    /// The protocol in few rounds: a first look, in under five minutes
    Quick,
    /// The scripts beside raw Redis and other queues
    Protocol,
    /// A worker is killed with all that it has in flight
    Recovery(Length),
    /// Backlogs, workers and shards, few and many
    Growth(Length),
    /// What a request takes of memory, in Redis and in a worker
    Memory(Length),
    /// What queues take while nothing is to be done
    Idle(Length),
    /// The whole way of a request whose caller waits, beside a bare forwarder
    Endtoend(Length),
    /// How long one request takes that comes alone: idle, under load, beside a backlog
    Latency(Length),
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
        /// How many of the last it keeps
        most: usize,
    },
    /// Who calls, in a process of its own
    #[command(hide = true)]
    Caller(caller::Load),
    /// Calls in flight and nothing else, in a process of its own
    #[command(hide = true)]
    Bare(memory::bare::Calls),
    /// The hops of a request and nothing else, half of them in a process of its own
    #[command(hide = true)]
    Chain {
        /// Which half
        half: latency::chain::Half,
        /// Where Redis listens
        redis: u16,
        /// Where it takes calls, or where they go
        to: u16,
    },
    /// One hop and nothing else, in a process of its own
    #[command(hide = true)]
    Forwarder {
        /// Where it takes calls
        port: u16,
        /// Where they go
        target: u16,
    },
}

/// How a bench tells its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// One line of JSON a part, with every sample.
    Json,
}

/// How long one part is to measure.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Length {
    /// A first look
    #[arg(long)]
    quick: bool,
}

impl Length {
    fn effort(self) -> Effort {
        if self.quick { Effort::Quick } else { Effort::Full }
    }
}

/// How long a part measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// A first look.
    Quick,
    /// What is published.
    Full,
}

// One thread: the measuring side takes as little of the machine as it can.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // `cargo bench` says this to every bench.
    let arguments = std::env::args_os().filter(|argument| argument != "--bench");
    let Cli { bench, output } = Cli::parse_from(arguments);
    match bench.unwrap_or(Bench::All) {
        Bench::Pickup(args) => pickup::run(&args, output).await,
        Bench::Sleeper { port } => sleeper::run(port).await,
        Bench::Gateway { port, line, most } => gateway::run(port, line, most).await,
        Bench::Caller(load) => caller::run(&load).await,
        Bench::Bare(calls) => memory::bare::run(calls).await,
        Bench::Chain { half, redis, to } => latency::chain::run(half, redis, to).await,
        Bench::Forwarder { port, target } => endtoend::forwarder::run(port, target).await,
        Bench::Quick => told(output, protocol::report(Effort::Quick).await),
        Bench::Protocol => told(output, protocol::report(Effort::Full).await),
        Bench::Recovery(length) => told(output, recovery::report(length.effort()).await),
        Bench::Growth(length) => told(output, growth::report(length.effort()).await),
        Bench::Memory(length) => told(output, memory::report(length.effort()).await),
        Bench::Idle(length) => told(output, idle::report(length.effort()).await),
        Bench::Endtoend(length) => told(output, endtoend::report(length.effort()).await),
        Bench::Latency(length) => told(output, latency::report(length.effort()).await),
        Bench::All => all(output).await,
    }
}

/// Every part, told as soon as it is there.
async fn all(output: Output) -> ExitCode {
    let parts = [
        told(output, protocol::report(Effort::Full).await),
        told(output, recovery::report(Effort::Full).await),
        told(output, growth::report(Effort::Full).await),
        told(output, memory::report(Effort::Full).await),
        told(output, idle::report(Effort::Full).await),
        told(output, endtoend::report(Effort::Full).await),
        told(output, latency::report(Effort::Full).await),
    ];
    if parts.iter().all(|code| *code == ExitCode::SUCCESS) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints a part. The exit code says whether its targets are met.
fn told(output: Output, report: Report) -> ExitCode {
    println!("{}", report.told(output));
    if report.is_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
