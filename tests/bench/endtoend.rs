//! The whole way by `Prefer: wait`: producer, worker, gateway, and back to who waits; beside it, by turns and with the same
//! client, the gateway itself, and a bare forwarder before it.
//!
//! Everything runs on one machine, so a rate is what the processor time of all processes together allows. Each side is judged
//! where it is at its best. Nothing sweeps meanwhile: answers are kept for longer than the bench lasts.

pub(crate) mod forwarder;
mod told;

use std::time::Duration;

use holdfast_testkit::{Process, eventually};

use crate::caller::{Called, Load};
use crate::gateway::Gateway;
use crate::machine::{self, Machine};
use crate::report::Report;
use crate::stage::Stage;
use crate::{Effort, server};
use forwarder::Forwarder;

/// How many requests are in flight.
const IN_FLIGHT: [u32; 4] = [1, 16, 256, 4096];

/// How many requests the worker works on at once. The gateway answers at once: a few are enough, and of many each waits longer.
const CONCURRENCY: usize = 256;

/// How long the last settles may take.
const SOON: Duration = Duration::from_secs(30);

/// How long it is called before that counts, in ms.
const WARM_UP: u64 = 500;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Straight,
    Forwarder,
    Waiting,
}

const SIDES: [Side; 3] = [Side::Straight, Side::Forwarder, Side::Waiting];

/// One measurement.
#[derive(Clone, Debug)]
struct Turn {
    side: Side,
    in_flight: u32,
    called: Called,
    /// What a request cost each process but the client, in µs of processor time.
    cpu: Vec<(&'static str, f64)>,
}

/// All that runs.
struct Cast {
    stage: Stage,
    worker: Process,
    gateway: Gateway,
    forwarder: Forwarder,
}

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let before = machine::load();
    let (rounds, time) = match effort {
        Effort::Quick => (2, 1_000),
        Effort::Full => (5, 2_000),
    };
    // First: it raises the limit of open files, for those that are started after it as well.
    let redis = server::start(|_| {}).await;
    let gateway = Gateway::start().await;
    let stage = Stage::on(redis, &gateway.url(), CONCURRENCY).await;
    let forwarder = Forwarder::start(gateway.port()).await;
    let worker = stage.worker().await;
    let machine = Machine::look(&stage.redis).await;
    let cast = Cast { stage, worker, gateway, forwarder };
    let mut turns = Vec::new();
    for round in 1..=rounds {
        for in_flight in IN_FLIGHT {
            eprintln!("end to end, round {round} of {rounds}: {in_flight} in flight");
            for side in SIDES {
                turns.push(cast.turn(side, in_flight, time).await);
            }
        }
    }
    cast.stage.end(cast.worker).await;
    Report::new("end to end", machine, [before, machine::load()], told::rows(&turns))
}

impl Cast {
    async fn turn(&self, side: Side, in_flight: u32, time: u64) -> Turn {
        let port = match side {
            Side::Straight => self.gateway.port(),
            Side::Forwarder => self.forwarder.port(),
            Side::Waiting => self.stage.api(),
        };
        let producer = side == Side::Waiting;
        let processes = self.processes(side);
        let pids = processes.iter().map(|(_, pid)| *pid).collect();
        let load = Load { port, producer, in_flight, warm_up: WARM_UP, time, rate: None, pids };
        let called = load.run().await;
        // The last is told before it is settled for the worker.
        eventually("all is settled", SOON, async || match self.stage.unfinished().await {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        })
        .await;
        let names = processes.iter().map(|(name, _)| *name);
        let cpu = names.zip(called.others.iter().copied()).collect();
        Turn { side, in_flight, called, cpu }
    }

    /// All that a side needs beside the client.
    fn processes(&self, side: Side) -> Vec<(&'static str, u32)> {
        let mut processes = vec![("the gateway", self.gateway.pid())];
        match side {
            Side::Straight => {}
            Side::Forwarder => processes.push(("the forwarder", self.forwarder.pid())),
            Side::Waiting => processes.extend([
                ("the producer", self.stage.producer_pid()),
                ("the worker", self.worker.pid()),
                ("Redis", self.stage.redis.pid()),
            ]),
        }
        processes
    }
}
