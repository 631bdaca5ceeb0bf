//! What is compared: a way to take in a batch, hand it out, keep its answers and forget it.

use std::time::{Duration, Instant};

use holdfast_testkit::RedisServer;

use crate::server::Spent;

/// Requests in one batch.
pub(super) const BATCH: usize = 64;

/// What the gateway is taken to answer.
pub(super) const ANSWER: usize = 200;

/// One side of a comparison, on a server of its own.
pub(super) trait Side {
    fn server(&self) -> &RedisServer;

    /// Makes what the next turns will use, so that nobody's making of it is measured.
    async fn prepare(&mut self, turns: usize);

    /// One batch.
    async fn turn(&mut self);
}

/// What one request took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// By the clock, in µs.
    pub(super) time: f64,
    /// Of the server's processor, in µs.
    pub(super) cpu: f64,
    /// Of the append-only file, in bytes.
    pub(super) aof: f64,
}

/// Runs some turns of `batch` requests each.
pub(super) async fn measure(side: &mut impl Side, turns: usize, batch: usize) -> Cost {
    side.prepare(turns).await;
    let before = Spent::by(side.server()).await;
    let began = Instant::now();
    for _ in 0..turns {
        side.turn().await;
    }
    cost(side.server(), before, began.elapsed(), turns * batch).await
}

/// What was spent since, a request.
pub(super) async fn cost(
    server: &RedisServer,
    before: Spent,
    took: Duration,
    requests: usize,
) -> Cost {
    let spent = Spent::by(server).await.since(before);
    let share = |all: f64| all / requests as f64;
    Cost { time: share(took.as_secs_f64() * 1e6), cpu: share(spent.cpu), aof: share(spent.aof) }
}

/// The costs of one side, round by round.
#[derive(Debug, Default)]
pub(super) struct Costs {
    pub(super) time: Vec<f64>,
    pub(super) cpu: Vec<f64>,
    pub(super) aof: Vec<f64>,
}

impl Costs {
    pub(super) fn push(&mut self, cost: Cost) {
        self.time.push(cost.time);
        self.cpu.push(cost.cpu);
        self.aof.push(cost.aof);
    }
}

/// What one is to the other, round by round.
pub(super) fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one / other).collect()
}

/// Bytes that do not compress and hold no newline: what lies in them is nobody's business.
pub(super) fn body(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|at| b'a' + ((at * 31 + seed * 17) % 26) as u8).collect()
}
