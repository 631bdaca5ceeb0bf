//! A queue of one shard beside queues of more, all on one server: a worker's slots are shared out over the shards.

use std::time::Instant;

use tokio::task::JoinSet;

use crate::Effort;
use crate::growth::{SIZE, compared};
use crate::protocol::cycle::{BATCH, Cost, Costs, cost};
use crate::protocol::holdfast::Holdfast;
use crate::report::Row;
use crate::server::{self, Spent};

/// How many shards.
const SHARDS: [u32; 3] = [1, 4, 16];

/// Rounds of all slots in a round of the bench.
const TURNS: usize = 128;

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let rounds = if effort == Effort::Quick { 3 } else { 9 };
    let mut queues = Vec::new();
    for shards in SHARDS {
        let server = server::start(|_| {}).await;
        queues.push(Holdfast::split(server, "bench", shards, SIZE).await);
    }
    let mut all: [Costs; 3] = Default::default();
    for round in 0..=rounds {
        eprintln!("shards: round {round} of {rounds}");
        for (queue, costs) in queues.iter_mut().zip(&mut all) {
            let cost = worked(queue).await;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let named = |shards| format!("{shards} shards / one, claim, body read and ack over 64 slots");
    let many = SHARDS.into_iter().zip(&all).skip(1);
    many.flat_map(|(shards, many)| compared(&named(shards), many, &all[0])).collect()
}

/// Claims from all shards at once, each for its part of the slots.
async fn worked(queue: &mut Vec<Holdfast>) -> Cost {
    let slots = BATCH / queue.len();
    for shard in &mut *queue {
        shard.pile_up(TURNS * slots).await;
    }
    let server = std::sync::Arc::clone(&queue[0].server);
    let before = Spent::by(&server).await;
    let began = Instant::now();
    for _ in 0..TURNS {
        let mut working = JoinSet::new();
        for mut shard in queue.drain(..) {
            working.spawn(async move {
                shard.work(slots).await;
                shard
            });
        }
        queue.extend(working.join_all().await);
    }
    let cost = cost(&server, before, began.elapsed(), TURNS * BATCH).await;
    for shard in queue {
        shard.sweep_all().await;
    }
    cost
}
