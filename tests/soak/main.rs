//! Everything breaks for minutes, and a ledger that no service writes says what became of each request: `just soak 10m`.
//!
//! Two legs, each half as long: with `appendfsync always`, where Redis forgets nothing that it has acknowledged, and with
//! `everysec`, where what it forgets is told apart from what we lost. It ends with 1 where anything was lost, had a second
//! record, or can't be explained; where fewer requests or faults came than make a run worth its time; or where a kind of
//! fault hit nothing.
//!
//! # Reading order
//!
//! [`ledger`]: what is written down. [`clients`]: who writes it. [`stage`]: what runs. [`faults`]: what goes wrong. [`census`]:
//! what Redis knows. [`checker`]: the judgement. [`told`]: the table. [`beside`]: another version. The same seed draws the same requests and faults; when
//! each happens, the machine decides too.
#![expect(clippy::expect_used, reason = "a run that can't go on ends and says what failed")]

mod beside;
mod census;
mod checker;
mod clients;
#[allow(dead_code, reason = "the walk draws more")]
#[path = "../walk/dice.rs"]
mod dice;
mod faults;
mod ledger;
#[allow(dead_code, reason = "the test of upgrades builds one to come as well")]
#[path = "../upgrade/programs.rs"]
mod programs;
mod skew;
mod stage;
mod told;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use holdfast_testkit::{AppendFsync, Process};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use clients::Clients;
use faults::{Fault, Lane};
use programs::Programs;
use stage::{Role, Stage};
use told::{Leg, Run};

/// How long all requests may take to end once nothing goes wrong any more.
const REST: Duration = Duration::from_secs(90);

/// Everything breaks, and nothing is lost
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Cli {
    /// How long faults happen, in all: 90s, 10m, 2h
    #[arg(default_value = "60s", value_parser = length)]
    length: Duration,
    /// What is drawn; another number, another run. None: any
    #[arg(long)]
    seed: Option<u64>,
    /// Every other process is of the version that tests/upgrade-from names
    #[arg(long)]
    upgrade: bool,
    /// How the figures are printed
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// How the figures are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table.
    Text,
    /// One line of JSON.
    Json,
}

fn length(text: &str) -> Result<Duration, String> {
    let unit = |end: char| match end {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3_600),
        _ => None,
    };
    let parsed = text.char_indices().next_back().and_then(|(at, end)| {
        let number: u64 = text[..at].parse().ok()?;
        Some(Duration::from_secs(number * unit(end)?))
    });
    let long_enough = parsed.filter(|it| *it >= Duration::from_secs(20));
    long_enough.ok_or_else(|| "must be a number and s, m or h, at least 20s".to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    // `cargo bench` and `cargo test` say these to every bench.
    let arguments = std::env::args_os().filter(|it| it != "--bench" && it != "--test");
    let cli = Cli::parse_from(arguments);
    let seed = cli.seed.unwrap_or_else(|| rand::random::<u32>().into());
    eprintln!("seed {seed}");
    let mut versions = vec![Programs::older()];
    if cli.upgrade {
        versions.push(beside::upgraded_from());
    }
    let mut legs = Vec::new();
    for (name, appendfsync) in
        [("always", AppendFsync::Always), ("everysec", AppendFsync::EverySecond)]
    {
        let stage = Stage::set(appendfsync, versions.clone()).await;
        legs.push(leg(name, stage, cli.length / 2, seed).await);
    }
    let run = Run { seed, length: cli.length, legs };
    match cli.output {
        Output::Text => println!("{}", run.text()),
        Output::Json => println!("{}", run.json()),
    }
    if run.failures().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One leg, from the first process to the last.
async fn leg(name: &'static str, stage: Stage, length: Duration, seed: u64) -> Leg {
    let stage = Arc::new(stage);
    let clients = Arc::new(Clients::new(Arc::clone(&stage.ledger), stage.apis(), name, seed));
    let (began, mut at_work) = (Instant::now(), clients.begin());
    let faults = go_wrong(&stage, length, seed).await;
    stage.mend().await;
    let mut wrong = rest(&clients, &mut at_work).await;
    drained(&stage).await;
    clients.read_again().await;
    let mut verdict = checker::judge(&stage.ledger, &stage.gateway.arrivals(), &faults);
    wrong.extend(census::audit(&stage.redis).await);
    wrong.extend(gauges(&stage).await);
    wrong.extend(doctor(&stage).await);
    wrong.extend(stage.end().await);
    verdict.violations.extend(wrong);
    let leg = Leg { name, took: began.elapsed(), faults, verdict };
    let (accepted, bad) = (leg.verdict.accepted, leg.verdict.violations.len());
    eprintln!("{name}: {} faults, {accepted} accepted, {bad} violations", leg.faults.len());
    leg
}

/// Lets all lanes of faults run for so long.
async fn go_wrong(stage: &Arc<Stage>, length: Duration, seed: u64) -> Vec<Fault> {
    let over = CancellationToken::new();
    let run = |lane: Lane| lane.run(Arc::clone(stage), seed, over.clone());
    let [processes, store, gateway] = Lane::ALL.map(run);
    let lanes = async { tokio::join!(processes, store, gateway) };
    let clock = async {
        sleep(length).await;
        over.cancel();
    };
    let ((processes, store, gateway), ()) = tokio::join!(lanes, clock);
    let mut faults = [processes, store, gateway].concat();
    faults.sort_by_key(|fault| fault.from);
    faults
}

/// Waits until every client has its record.
async fn rest(clients: &Clients, at_work: &mut JoinSet<()>) -> Vec<String> {
    clients.stop.cancel();
    let all = async { while at_work.join_next().await.is_some() {} };
    if timeout(REST, all).await.is_ok() {
        return Vec::new();
    }
    let left = at_work.len();
    clients.give_up.cancel();
    while at_work.join_next().await.is_some() {}
    vec![format!("{left} clients had no record {} s after the last fault", REST.as_secs())]
}

/// Waits until nothing lives any more: also what nobody waits for, whose end Redis forgot. The audit tells what stays.
async fn drained(stage: &Stage) {
    let until = Instant::now() + REST;
    while census::live(&stage.redis).await > 0 && Instant::now() < until {
        sleep(Duration::from_millis(250)).await;
    }
}

/// No worker holds or calls for anything any more.
async fn gauges(stage: &Stage) -> Vec<String> {
    let mut wrong = Vec::new();
    for place in stage.of(Role::Worker) {
        let metrics = stage.metrics(place).await;
        let metrics = match metrics {
            Ok(metrics) => metrics,
            Err(why) => {
                wrong.push(format!("a worker tells no metrics: {why}"));
                continue;
            }
        };
        for gauge in ["holdfast_leases_held{", "holdfast_in_flight{"] {
            let lines = metrics.lines().filter(|line| line.starts_with(gauge));
            let left = lines.filter(|line| !line.ends_with(" 0"));
            wrong.extend(left.map(|line| format!("at the end: {line}")));
        }
    }
    wrong
}

/// What the operators' own look at the keys says.
async fn doctor(stage: &Stage) -> Vec<String> {
    let words = ["doctor", "--redis", stage.redis.url()];
    let told = Process::run(env!("CARGO_BIN_EXE_it-holdfastctl"), &words, &[]).await;
    if told.status.success() {
        return Vec::new();
    }
    vec![format!("doctor ends with {}: {}{}", told.status, told.stdout, told.stderr)]
}
