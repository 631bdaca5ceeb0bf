//! Claim and ack in batches, beside one script a claim and one an ack.

use std::time::Instant;

use super::cycle::{BATCH, Cost, Costs, cost, measure, ratios};
use super::floor::{Floor, Floors};
use super::holdfast::Holdfast;
use super::single::Single;
use crate::Effort;
use crate::report::{Row, median};
use crate::server::{self, Spent};

/// The bodies, in bytes.
const SIZE: usize = 1 << 10;

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let rounds = if effort == Effort::Quick { 3 } else { 9 };
    let mut holdfast = ours().await;
    let mut single = Single::new(server::start(|_| {}).await, SIZE).await;
    let (mut floors, mut under) = (Floor::both(SIZE).await, Floors::default());
    let (mut batched, mut alone, mut lean) = (Costs::default(), Costs::default(), Costs::default());
    for round in 0..=rounds {
        eprintln!("claim and ack: round {round} of {rounds}");
        let costs = [
            worked(&mut holdfast, 100, BATCH).await,
            worked(&mut holdfast, 1000, 1).await,
            measure(&mut single, 2000, 1).await,
        ];
        let mut floor = Vec::new();
        for side in &mut floors {
            let [_, worked] = side.phases(100, false).await;
            floor.push(worked);
        }
        if round > 0 {
            under.push(&floor);
            for (all, cost) in [&mut batched, &mut alone, &mut lean].into_iter().zip(costs) {
                all.push(cost);
            }
        }
    }
    let rates = ratios(&lean.time, &batched.time);
    let shares = ratios(&batched.cpu, &lean.cpu);
    let what = "claim, body read and ack in batches of 64 / two lean scripts a request";
    let rate = Row::new(format!("{what}: rate"), "x", median(&rates))
        .at_least(4.5)
        .note(format!("{:.1} and {:.1} us", median(&batched.time), median(&lean.time)))
        .samples("ours", batched.time.clone())
        .samples("theirs", lean.time.clone());
    let cpu = Row::new(format!("{what}: server CPU"), "x", median(&shares))
        .at_most(0.25)
        .note(format!("{:.1} and {:.1} us", median(&batched.cpu), median(&lean.cpu)))
        .samples("ours", batched.cpu.clone())
        .samples("theirs", lean.cpu.clone());
    vec![
        under.under(rate, "us", |it| &it.time, |own| ratios(&lean.time, own)),
        under.under(cpu, "us", |it| &it.cpu, |own| ratios(own, &lean.cpu)),
        Row::new("claim, body read and ack of one / in a batch of 64: server CPU", "x", {
            median(&ratios(&alone.cpu, &batched.cpu))
        })
        .note(format!("{:.1} and {:.1} us", median(&alone.cpu), median(&batched.cpu)))
        .samples("one", alone.cpu),
    ]
}

async fn ours() -> Holdfast {
    let server = server::start(|_| {}).await;
    let url = server.url().to_owned();
    Holdfast::new(server, &url, SIZE).await
}

/// Claims, reads and acks batches that were submitted before.
async fn worked(side: &mut Holdfast, turns: usize, batch: usize) -> Cost {
    side.fill((turns * batch).div_ceil(BATCH)).await;
    let before = Spent::by(&side.server).await;
    let began = Instant::now();
    for _ in 0..turns {
        side.work(batch).await;
    }
    let cost = cost(&side.server, before, began.elapsed(), turns * batch).await;
    // What is over the round's share is taken off, so that each round finds the same.
    side.drain().await;
    cost
}
