//! One worker beside many on one queue, each with a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use crate::Effort;
use crate::growth::SIZE;
use crate::protocol::cycle::{BATCH, Cost, Costs, cost, ratios};
use crate::protocol::holdfast::Holdfast;
use crate::report::{Row, median};
use crate::server::{self, Spent};

/// How many workers.
const WORKERS: [usize; 4] = [1, 4, 16, 64];

/// Batches in a round.
const TURNS: usize = 256;

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let rounds = if effort == Effort::Quick { 3 } else { 9 };
    let server = server::start(|_| {}).await;
    let url = server.url().to_owned();
    let mut side = Holdfast::new(server, &url, SIZE).await;
    let mut workers: Vec<Holdfast> = (0..64).map(|_| side.another()).collect();
    let mut all: [Costs; 4] = Default::default();
    for round in 0..=rounds {
        eprintln!("workers: round {round} of {rounds}");
        for (count, costs) in WORKERS.into_iter().zip(&mut all) {
            let cost = together(&mut side, &mut workers, count).await;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let one = &all[0];
    let compared = |count: usize, many: &Costs| {
        let what = format!("{count} workers / one, claim, body read and ack");
        let per_second = |costs: &Costs| 1e6 / median(&costs.time);
        let (rates, cpu) = (ratios(&one.time, &many.time), ratios(&many.cpu, &one.cpu));
        [
            Row::new(format!("{what}: rate"), "x", median(&rates))
                .note(format!("{:.0} and {:.0} a second", per_second(many), per_second(one)))
                .samples("us a request", many.time.clone())
                .samples("us a request, one", one.time.clone()),
            Row::new(format!("{what}: server CPU"), "x", median(&cpu))
                .note(format!("{:.1} and {:.1} us a request", median(&many.cpu), median(&one.cpu)))
                .samples("us a request", many.cpu.clone())
                .samples("us a request, one", one.cpu.clone()),
        ]
    };
    WORKERS.into_iter().zip(&all).skip(1).flat_map(|(count, many)| compared(count, many)).collect()
}

/// So many workers take the turns of a round among themselves.
async fn together(side: &mut Holdfast, workers: &mut Vec<Holdfast>, count: usize) -> Cost {
    side.fill(TURNS).await;
    let left = Arc::new(AtomicUsize::new(TURNS));
    let mut working = JoinSet::new();
    let before = Spent::by(&side.server).await;
    let began = Instant::now();
    for mut worker in workers.drain(..count) {
        let left = Arc::clone(&left);
        working.spawn(async move {
            let next = |left: usize| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
                worker.work(BATCH).await;
            }
            worker
        });
    }
    workers.extend(working.join_all().await);
    let cost = cost(&side.server, before, began.elapsed(), TURNS * BATCH).await;
    side.sweep_all().await;
    cost
}
