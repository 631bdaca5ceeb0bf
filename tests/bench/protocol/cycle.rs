//! What is compared: a way to take in a batch, hand it out, keep its answers and forget it.

use std::time::{Duration, Instant};

use holdfast_testkit::RedisServer;

use crate::server::Spent;

/// Requests in one batch.
pub(crate) const BATCH: usize = 64;

/// What the gateway is taken to answer.
pub(crate) const ANSWER: usize = 200;

/// One side of a comparison, on a server of its own.
pub(crate) trait Side {
    fn server(&self) -> &RedisServer;

    /// Makes what the next turns will use, so that nobody's making of it is measured.
    async fn prepare(&mut self, turns: usize);

    /// One batch.
    async fn turn(&mut self);
}

/// What one request took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// By the clock, in µs.
    pub(crate) time: f64,
    /// Of the server's processor, in µs.
    pub(crate) cpu: f64,
    /// Of the append-only file, in bytes.
    pub(crate) aof: f64,
}

/// Runs some turns of `batch` requests each.
pub(crate) async fn measure(side: &mut impl Side, turns: usize, batch: usize) -> Cost {
    side.prepare(turns).await;
    let before = Spent::by(side.server()).await;
    let began = Instant::now();
    for _ in 0..turns {
        side.turn().await;
    }
    cost(side.server(), before, began.elapsed(), turns * batch).await
}

/// What was spent since, a request.
pub(crate) async fn cost(
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) time: Vec<f64>,
    pub(crate) cpu: Vec<f64>,
    pub(crate) aof: Vec<f64>,
}

impl Costs {
    pub(crate) fn push(&mut self, cost: Cost) {
        self.time.push(cost.time);
        self.cpu.push(cost.cpu);
        self.aof.push(cost.aof);
    }
}

/// What one is to the other, round by round.
pub(crate) fn ratios(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one / other).collect()
}

/// Bytes that do not compress and hold no newline: what lies in them is nobody's business.
pub(crate) fn body(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|at| b'a' + ((at * 31 + seed * 17) % 26) as u8).collect()
}
