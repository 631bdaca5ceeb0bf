//! One worker beside many on one queue, each with a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use crate::Effort;
use crate::growth::{SIZE, compared};
use crate::protocol::cycle::{BATCH, Cost, Costs, cost};
use crate::protocol::holdfast::Holdfast;
use crate::report::Row;
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
    let named = |count| format!("{count} workers / one, claim, body read and ack");
    let many = WORKERS.into_iter().zip(&all).skip(1);
    many.flat_map(|(count, many)| compared(&named(count), many, &all[0])).collect()
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
