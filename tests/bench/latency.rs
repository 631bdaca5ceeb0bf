//! How long one request takes that comes alone: to the gateway, and from there back to who waits for it. In an idle system, under
//! half of the load that it can bear, and beside a large backlog.

mod backlog;
pub(crate) mod chain;
mod lone;
mod told;

use std::time::Duration;

use holdfast_testkit::eventually;
use tokio::time::{Instant, sleep};

use crate::caller::Load;
use crate::gateway::Gateway;
use crate::machine::{self, Machine};
use crate::report::{Report, Row};
use crate::server::Spent;
use crate::stage::Stage;
use crate::{Effort, server};
use chain::Chain;
use lone::{Plan, Round};

/// Of how many calls the gateway can tell: under load, more than come in while one is asked for.
const KEPT: usize = 1 << 14;

/// How many requests the worker works on at once.
const CONCURRENCY: usize = 256;

/// The rest at which an idle system is judged, and one at which all is colder.
const REST: Duration = Duration::from_millis(20);
const LONG_REST: Duration = Duration::from_millis(100);

/// How many callers find out what the system can bear, and how many make half of that.
const MANY: u32 = 256;
const SOME: u32 = 64;

/// How long a load lasts at most, in ms; it is ended before.
const FOR_LONG: u64 = 3_600_000;

/// How long anything may take to calm down.
const SOON: Duration = Duration::from_secs(30);

/// How much is measured.
struct Size {
    rounds: usize,
    /// Samples of each kind in a round that is judged.
    judged: usize,
    /// The same in others, and where each is preceded by a long rest.
    others: usize,
    cold: usize,
    backlog: usize,
}

impl Size {
    fn of(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Self { rounds: 3, judged: 100, others: 30, cold: 10, backlog: 50_000 },
            // Two thousand in all: each takes a tenth of a second.
            Effort::Full => {
                Self { rounds: 3, judged: 700, others: 100, cold: 30, backlog: 1_000_000 }
            }
        }
    }
}

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let (before, size) = (machine::load(), Size::of(effort));
    let redis = server::start(|_| {}).await;
    let gateway = Gateway::keeping(KEPT).await;
    let stage = Stage::on(redis, &gateway.url(), CONCURRENCY).await;
    let worker = stage.worker().await;
    let machine = Machine::look(&stage.redis).await;
    let plan = Plan {
        stage: &stage,
        gateway: &gateway,
        rest: REST,
        samples: size.judged,
        is_alone: true,
        chain: None,
    };

    let chain = Chain::start(stage.redis.port(), gateway.port()).await;
    let rounds = measure(Plan { chain: Some(&chain), ..plan }, "idle", &size).await;
    drop(chain);
    let mut rows = told::rows("idle, a rest of 20 ms", &rounds, true);
    let cold = Plan { rest: LONG_REST, samples: size.cold, ..plan };
    let rounds = measure(cold, "cold", &size).await;
    rows.extend(told::rows("idle, a rest of 100 ms", &rounds, false));
    let plan = Plan { samples: size.others, ..plan };
    rows.extend(under_half_load(plan, &size).await);
    rows.extend(beside_backlog(plan, &size).await);
    stage.end(worker).await;
    Report::new("latency", machine, [before, machine::load()], rows)
}

/// `name` becomes a part of ids, so it is one word.
async fn measure(plan: Plan<'_>, name: &str, size: &Size) -> Vec<Round> {
    let mut rounds = Vec::new();
    for round in 1..=size.rounds {
        eprintln!(
            "latency, {name}, round {round} of {}: {} samples of each kind",
            size.rounds, plan.samples
        );
        rounds.push(plan.round(&format!("{name}-{round}")).await);
    }
    rounds
}

/// Finds out what the system can bear, and measures under half of that.
async fn under_half_load(plan: Plan<'_>, size: &Size) -> Vec<Row> {
    let stage = plan.stage;
    let port = stage.api();
    let (warm_up, time) = (500, 2_000);
    let most =
        Load { port, producer: true, in_flight: MANY, warm_up, time, rate: None, pids: Vec::new() };
    let can = most.run().await.rate;
    let rate = Some(can / 2.0);
    let half = Load { in_flight: SOME, time: FOR_LONG, rate, ..most.clone() };
    let load = half.start();
    sleep(Duration::from_secs(1)).await;
    let (began, before) = (Instant::now(), plan.gateway.now().await);
    let rounds = measure(Plan { is_alone: false, ..plan }, "half-load", size).await;
    let given = plan.gateway.now().await.given - before.given;
    let real = given as f64 / began.elapsed().as_secs_f64();
    drop(load);
    eventually("the load is over", SOON, async || match stage.unfinished().await {
        0 => Ok(()),
        left => Err(format!("{left} are left")),
    })
    .await;
    let note = format!("of {can:.0}/s, which it can bear");
    let mut rows = vec![Row::new("half load: the load that there was", "/s", real).note(note)];
    rows.extend(told::rows("half load", &rounds, false));
    rows
}

/// Measures beside many that wait in the same server.
async fn beside_backlog(plan: Plan<'_>, size: &Size) -> Vec<Row> {
    let server = &plan.stage.redis;
    let before = Spent::by(server).await;
    eprintln!("latency: {} requests are put into another queue", size.backlog);
    backlog::build(server, size.backlog).await;
    let memory = Spent::by(server).await.since(before).memory;
    let rounds = measure(plan, "backlog", size).await;
    let each = memory / size.backlog as f64;
    let name = format!("a backlog of {}", size.backlog);
    let mut rows = vec![Row::new(format!("{name}: memory of each in Redis"), "B", each)];
    rows.extend(told::rows(&name, &rounds, false));
    rows
}
