//! A whole request: submitted, claimed, its body read, settled with an answer, swept; beside streams and a sorted set, and with
//! what lies under it.

use std::time::Duration;

use super::cycle::{BATCH, Costs, measure, ratios};
use super::floor::{Floor, Floors};
use super::holdfast::Holdfast;
use super::raw::{Streams, Zset};
use crate::Effort;
use crate::distance::Distance;
use crate::report::{Row, median};
use crate::server;

/// Batches that wait before the first turn: 20,000 requests.
const BACKLOG: usize = 313;

/// One comparison.
#[derive(Clone, Copy)]
struct Plan {
    size: usize,
    /// A round trip that is put between clients and servers; none: loopback.
    distance: Option<Duration>,
    rounds: usize,
    turns: usize,
}

/// The sides by turns, round by round.
#[derive(Default)]
struct Measured {
    holdfast: Costs,
    streams: Costs,
    zset: Costs,
    floors: Floors,
}

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let (rounds, turns) = match effort {
        Effort::Quick => (3, 100),
        Effort::Full => (9, 200),
    };
    let plan = Plan { size: 1 << 10, distance: None, rounds, turns };
    let mut rows = small(&plan.run("1 KB").await);
    let large = Plan { size: 16 << 10, turns: turns / 4, ..plan }.run("16 KB").await;
    rows.extend(self::large(&large));
    if effort == Effort::Full {
        for us in [500, 2000] {
            let distance = Some(Duration::from_micros(us));
            let plan = Plan { distance, rounds: 3, turns: 50, ..plan };
            rows.push(far(us, &plan.run("1 KB, far away").await));
        }
    }
    rows
}

impl Plan {
    async fn run(&self, name: &str) -> Measured {
        let start = || server::start(|_| {});
        let (one, two, three) = (start().await, start().await, start().await);
        let mut between = Vec::new();
        let mut ports = [one.port(), two.port(), three.port()];
        if let Some(distance) = self.distance {
            for port in &mut ports {
                let put = Distance::put(*port, distance);
                *port = put.port();
                between.push(put);
            }
        }
        let url = format!("redis://127.0.0.1:{}", ports[0]);
        let mut holdfast = Holdfast::new(one, &url, self.size).await;
        let mut streams = Streams::new(two, ports[1], self.size).await;
        let mut zset = Zset::new(three, ports[2], self.size);
        let mut floors = self.floors().await;
        holdfast.fill(BACKLOG).await;
        streams.fill(BACKLOG).await;
        zset.fill(BACKLOG).await;

        let mut measured = Measured::default();
        // The first round warms up.
        for round in 0..=self.rounds {
            eprintln!("a whole request of {name}: round {round} of {}", self.rounds);
            let holdfast = measure(&mut holdfast, self.turns, BATCH).await;
            let streams = measure(&mut streams, self.turns, BATCH).await;
            let zset = measure(&mut zset, self.turns, BATCH).await;
            let mut under = Vec::new();
            for floor in &mut floors {
                under.push(measure(floor, self.turns, BATCH).await);
            }
            if round > 0 {
                measured.holdfast.push(holdfast);
                measured.streams.push(streams);
                measured.zset.push(zset);
                measured.floors.push(&under);
            }
        }
        measured
    }

    /// What lies under it, with the same backlog; far away there are no targets to show reasons for.
    async fn floors(&self) -> Vec<Floor> {
        if self.distance.is_some() {
            return Vec::new();
        }
        let mut floors = Vec::from(Floor::both(self.size).await);
        for floor in &mut floors {
            floor.fill(BACKLOG).await;
        }
        floors
    }
}

impl Measured {
    /// Puts the floors under a row: beside the same opponent, in the same rounds.
    fn rate(&self, what: &str, other: &Costs) -> Row {
        let row = rate(what, &self.holdfast, other);
        self.floors.under(row, "us", |it| &it.time, |own| ratios(&other.time, own))
    }

    fn cpu(&self, what: &str, other: &Costs) -> Row {
        let row = cpu(what, &self.holdfast, other);
        self.floors.under(row, "us", |it| &it.cpu, |own| ratios(own, &other.cpu))
    }

    fn aof(&self, what: &str, other: &Costs) -> Row {
        let row = aof(what, &self.holdfast, other);
        self.floors.under(row, "B", |it| &it.aof, |own| ratios(own, &other.aof))
    }
}

fn small(it: &Measured) -> Vec<Row> {
    let (streams, zset) = (&it.streams, &it.zset);
    vec![
        it.rate("a whole request of 1 KB / Redis Streams: rate", streams).at_least(0.4),
        it.cpu("a whole request of 1 KB / Redis Streams: server CPU", streams).at_most(3.0),
        it.aof("a whole request of 1 KB / Redis Streams: AOF", streams).at_most(1.3),
        it.rate("a whole request of 1 KB / ZADD + ZPOPMIN: rate", zset).at_least(0.27),
        it.cpu("a whole request of 1 KB / ZADD + ZPOPMIN: server CPU", zset).at_most(4.0),
        it.aof("a whole request of 1 KB / ZADD + ZPOPMIN: AOF", zset),
    ]
}

fn large(it: &Measured) -> Vec<Row> {
    let (streams, zset) = (&it.streams, &it.zset);
    vec![
        it.cpu("a whole request of 16 KB / Redis Streams: server CPU", streams).at_most(1.3),
        it.rate("a whole request of 16 KB / Redis Streams: rate", streams),
        it.aof("a whole request of 16 KB / Redis Streams: AOF", streams),
        it.cpu("a whole request of 16 KB / ZADD + ZPOPMIN: server CPU", zset),
    ]
}

fn far(us: u64, measured: &Measured) -> Row {
    let what = format!("a whole request of 1 KB / Redis Streams, {us} us away: rate");
    rate(&what, &measured.holdfast, &measured.streams)
}

/// How the rate of one is to that of the other: their times, the other way round.
fn rate(what: &str, one: &Costs, other: &Costs) -> Row {
    compared(what, "us", (&other.time, &one.time), (&one.time, &other.time))
}

fn cpu(what: &str, one: &Costs, other: &Costs) -> Row {
    compared(what, "us", (&one.cpu, &other.cpu), (&one.cpu, &other.cpu))
}

fn aof(what: &str, one: &Costs, other: &Costs) -> Row {
    compared(what, "B", (&one.aof, &other.aof), (&one.aof, &other.aof))
}

/// The median of the ratios of `divided`, and what they come from.
fn compared(
    what: &str,
    unit: &str,
    divided: (&[f64], &[f64]),
    (ours, theirs): (&[f64], &[f64]),
) -> Row {
    let ratios = ratios(divided.0, divided.1);
    let note = format!("{:.1} and {:.1} {unit}", median(ours), median(theirs));
    Row::new(what, "x", median(&ratios))
        .note(note)
        .samples("ours", ours.to_vec())
        .samples("theirs", theirs.to_vec())
        .samples("ratios", ratios)
}
