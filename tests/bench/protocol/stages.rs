//! Where a request's server time goes: each call of its life by itself.

use std::time::Duration;

use holdfast_core::script::Submission;

use super::cycle::BATCH;
use super::holdfast::{Holdfast, LEASE};
use crate::Effort;
use crate::report::{Row, median};
use crate::server::{self, Spent};

/// Batches that wait all the time: 20,000 requests.
const BACKLOG: usize = 313;

/// The calls, in their order.
const CALLS: [&str; 5] = ["submit", "claim", "body read", "settle", "sweep"];

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let (rounds, turns) = if effort == Effort::Quick { (3, 50) } else { (9, 100) };
    let mut rows = Vec::new();
    for (name, size) in [("1 KB", 1 << 10), ("16 KB", 16 << 10)] {
        let server = server::start(|_| {}).await;
        let url = server.url().to_owned();
        let mut side = Holdfast::new(server, &url, size).await;
        side.fill(BACKLOG).await;
        let mut all: [Vec<f64>; 5] = Default::default();
        for round in 0..=rounds {
            eprintln!("the calls of a request of {name}: round {round} of {rounds}");
            let costs = round_of(&mut side, turns).await;
            if round > 0 {
                all.iter_mut().zip(costs).for_each(|(samples, cost)| samples.push(cost));
            }
        }
        for (call, samples) in CALLS.iter().zip(all) {
            let what = format!("{call}, {name}, batches of {BATCH}: server CPU a request");
            rows.push(Row::new(what, "us", median(&samples)).samples("us", samples));
        }
    }
    rows
}

/// Server time of each call, in µs a request.
async fn round_of(side: &mut Holdfast, turns: usize) -> [f64; 5] {
    let batches: Vec<Vec<Submission>> = (0..turns).map(|_| side.batch(BATCH)).collect();
    let mut costs = [0.0; 5];
    let mut before = Spent::by(&side.server).await;
    let server = std::sync::Arc::clone(&side.server);
    let mut mark = async |cost: &mut f64| {
        let now = Spent::by(&server).await;
        *cost = now.since(before).cpu / (turns * BATCH) as f64;
        before = now;
    };
    for batch in &batches {
        side.submit(batch).await;
    }
    mark(&mut costs[0]).await;
    let mut leased = Vec::new();
    for _ in 0..turns {
        leased.push(side.claim(BATCH, LEASE).await);
    }
    mark(&mut costs[1]).await;
    for (_, claimed) in &leased {
        side.read(claimed).await;
    }
    mark(&mut costs[2]).await;
    for (fence, claimed) in &leased {
        side.ack(*fence, claimed.leases.iter().map(|lease| lease.handle)).await;
    }
    mark(&mut costs[3]).await;
    // All that was settled is over by then.
    tokio::time::sleep(Duration::from_millis(2)).await;
    for _ in 0..turns {
        assert_eq!(side.sweep(BATCH).await, BATCH, "there is enough to sweep");
    }
    mark(&mut costs[4]).await;
    costs
}
