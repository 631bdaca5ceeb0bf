//! What the queue costs: the way of one request through an idle system, and the rate of a full one.
//!
//! `idle` and `drain` measure, each beside its floor, in rounds; `report` adds up and tells.

mod drain;
pub(crate) mod idle;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use crate::Output;
use crate::gateway::Gateway;
use crate::machine::{self, Machine};
use crate::stage::Stage;
use report::Report;

/// How often all of it is repeated.
const ROUNDS: usize = 3;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many samples of each kind a round takes at each rest
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..))]
    samples: u32,
    /// How many requests a round drains
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    requests: u32,
    /// The worker's concurrency, and that of the bare loop
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// The rests before a sample, in ms: each is measured in each round. From 20 ms on the system counts as idle; after none,
    /// each sample follows as soon as the one before has its answer
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [0, 5, 20, 100])]
    rest: Vec<u64>,
}

/// Measures, and prints the figures. The exit code says whether the target is met.
pub(crate) async fn run(args: &Args, output: Output) -> ExitCode {
    let load_before = machine::load();
    let gateway = Gateway::start().await;
    let stage = Stage::set(&gateway.url(), args.concurrency.into()).await;
    let machine = Machine::look(&stage.redis).await;

    let worker = stage.worker().await;
    let mut idle = Vec::new();
    for round in 1..=ROUNDS {
        for &rest in &args.rest {
            eprintln!(
                "lone requests, round {round} of {ROUNDS}: {} samples of each kind, {rest} ms apart",
                args.samples
            );
            let rest = Duration::from_millis(rest);
            let plan = idle::Plan { stage: &stage, gateway: &gateway, rest, samples: args.samples };
            idle.push(plan.round(round).await);
        }
    }
    stage.end(worker).await;

    let plan = drain::Plan {
        stage: &stage,
        gateway: &gateway,
        requests: args.requests.into(),
        concurrency: args.concurrency.into(),
    };
    let mut drain = Vec::new();
    for round in 1..=ROUNDS {
        eprintln!("drain, round {round} of {ROUNDS}: {} requests", args.requests);
        drain.push(plan.round(round).await);
    }

    let load = [load_before, machine::load()];
    let report = Report::new(machine, load, args.concurrency, idle, drain);
    println!("{}", report.told(output));
    if report.is_within_target() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A small chat request that is like no other.
pub(crate) fn payload(id: &str) -> String {
    format!(
        r#"{{"model":"stand-in","max_tokens":64,"temperature":0.2,"messages":[{{"role":"system","content":"You answer in one sentence."}},{{"role":"user","content":"Request {id}: why is the sky blue at noon and red in the evening?"}}]}}"#
    )
}

/// The same as a submit.
pub(crate) fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","timeout":"1h","payload":{}}}"#, payload(id))
}

pub(crate) const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
