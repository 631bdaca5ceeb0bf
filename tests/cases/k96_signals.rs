//! K96: a process that is told to end.
//!
//! The signal does not arrive, or cuts what runs, or what was finished on the way out is not brought home.

use std::time::{Duration, Instant};

use holdfast_testkit::stand_in::Rule;
use nix::sys::signal::Signal;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::{aftermath, stage};

/// A worker with ten calls of 3 s in it, and ten more requests behind them.
async fn ten_in_flight() -> (Fleet, Role, Vec<String>) {
    let worker = format!(
        "{}\nname = \"leaving\"",
        stage::worker(10, Duration::from_secs(15)).replace("5s\"", "20s\"")
    );
    let fleet = stage::fleet(Setup { worker, ..Setup::default() }).await;
    fleet.gateway.script(vec![Rule::new().delay(time(3.0))]).expect("a rule");
    let (worker, ids) = (fleet.worker(), stage::ids("k96", 20));
    fleet.ready(worker.ops).await;
    stage::submit_all(&fleet, &ids).await;
    fleet.gateway.wait_for_arrivals(10, SOON).await.expect("dispatched");
    (fleet, worker, ids)
}

/// Either signal: what runs is finished and brought home, nothing new is begun, and the exit is clean.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_end_finishes_its_calls_and_begins_none() {
    let _shared = beside_others().await;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (fleet, mut worker, ids) = ten_in_flight().await;
        let asked = Instant::now();
        worker.process.signal(signal);
        let status = worker.process.wait(Duration::from_secs(30)).await;
        assert!(status.success(), "{signal}: {status}: {}", worker.process.output());
        assert!(
            asked.elapsed() < time(3.0) + Duration::from_secs(12),
            "it took {:?}",
            asked.elapsed()
        );
        assert_eq!(fleet.gateway.counts().arrived, 10, "{signal}: something was begun");
        let homes = [
            fleet.count("finished").await,
            fleet.count("leased").await,
            fleet.count("pending").await,
        ];
        assert_eq!(homes, [10, 0, 10], "{signal}: finished, leased, pending");
        let heir = fleet.worker();
        aftermath::of(&fleet, &ids, &[&heir]).await;
        assert_eq!(fleet.gateway.counts().arrived, 20, "{signal}: something ran twice");
    }
}

/// Told twice, it ends at once; what it held comes back by its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_twice_ends_at_once() {
    let _shared = beside_others().await;
    // A drain would last for 25 s.
    let worker = stage::worker(10, time(6.0)).replace("5s\"", "25s\"");
    let fleet = stage::fleet(Setup { worker, ..Setup::default() }).await;
    fleet.gateway.hold(true);
    let (mut worker, reclaimer, ids) = (fleet.worker(), fleet.reclaimer(), stage::ids("k96", 10));
    stage::submit_all(&fleet, &ids).await;
    fleet.gateway.wait_for_arrivals(10, SOON).await.expect("dispatched");
    worker.process.signal(Signal::SIGTERM);
    worker.process.wait_for_line(|line| line.contains("draining"), SOON).await;
    let again = Instant::now();
    worker.process.signal(Signal::SIGTERM);
    let status = worker.process.wait(Duration::from_secs(20)).await;
    assert!(again.elapsed() < Duration::from_secs(10), "it took {:?}", again.elapsed());
    assert_eq!(status.code(), Some(1), "it did not drain, and says so");
    fleet.gateway.hold(false);
    let heir = fleet.worker();
    let outcomes = aftermath::of(&fleet, &ids, &[&heir, &reclaimer]).await;
    assert_eq!(outcomes, vec!["answered"; ids.len()]);
}

/// Nothing to do, nothing connected yet, or nobody to connect to: an end that waits for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_nothing_to_finish_ends_at_once() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    for redis in ["idle", "starting", "frozen", "gone"] {
        let idle = redis == "idle";
        match redis {
            "frozen" => fleet.redis.pause(),
            "gone" => fleet.redis.kill().await,
            _ => {}
        }
        for mut role in [fleet.worker(), fleet.reclaimer()] {
            role.process.wait_for_line(|line| line.contains("ops port open"), SOON).await;
            if idle {
                fleet.ready(role.ops).await;
            } else if redis != "starting" {
                pass(Duration::from_millis(500)).await;
            }
            let asked = Instant::now();
            role.process.signal(Signal::SIGTERM);
            let status = role.process.wait(Duration::from_secs(30)).await;
            let took = asked.elapsed();
            assert!(status.success(), "{redis}: {status}: {}", role.process.output());
            // Without Redis, a claim that may have run is waited for a while.
            let limit = if matches!(redis, "idle" | "starting") { 5 } else { 9 };
            assert!(took < Duration::from_secs(limit), "{redis}: it took {took:?}");
        }
        if redis == "frozen" {
            fleet.redis.resume();
        }
    }
}
