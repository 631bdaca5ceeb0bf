//! K01: workers are killed with requests in flight.
//!
//! Queues that pop their work lose what a killed worker had in memory. Here nothing is popped: what was leased comes back
//! by itself, without any process being started, and each request still ends once.

use std::time::{Duration, Instant};

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::raw_gateway::{Answer, RawGateway};
use crate::{aftermath, stage};

const REQUESTS: usize = 64;
const SLOTS: usize = 16;

/// How long the gateway takes for an answer.
fn call() -> Duration {
    time(5.0)
}

/// By when all that a killed worker held must have been dispatched anew: lease, pass, and what starting a call takes.
fn takeover() -> Duration {
    time(15.0) + time(1.0) + Duration::from_secs(5)
}

async fn begin() -> (Fleet, RawGateway) {
    let setup = Setup {
        worker: stage::worker(SLOTS, time(15.0)),
        reclaimer: stage::reclaimer(time(1.0)),
        ..Setup::default()
    };
    stage::raw(setup, |_| Answer::ok().after(call())).await
}

/// All end as answered; what the dead held, and nothing else, was dispatched again, and soon enough.
async fn all_end(
    fleet: &Fleet,
    gateway: &RawGateway,
    killed: Instant,
    survivors: &[&Role],
    ids: &[String],
) {
    for id in ids {
        let (outcome, _) = fleet.result_within(id, takeover() + call() * 8).await;
        assert_eq!(outcome, "answered", "{id}");
    }
    let mut again = 0;
    for id in ids {
        let arrivals = gateway.arrivals_of(&stage::mark(id));
        assert!(arrivals.len() <= 2, "{id} was dispatched {} times", arrivals.len());
        if let [first, second] = &*arrivals {
            again += 1;
            assert!(first.is_aborted(), "{id} was taken from a worker that lived");
            let took = second.at.duration_since(killed);
            assert!(took <= takeover(), "{id} was dispatched again only {took:?} after the kill");
        }
    }
    assert!(again > 0, "the dead held nothing: nothing was tried");
    aftermath::of(fleet, ids, survivors).await;
}

/// One of two workers dies in the middle of its calls; the other does its work as well.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_workers_is_killed_and_all_64_end_once() {
    let _shared = beside_others().await;
    let (fleet, gateway) = begin().await;
    let (reclaimer, mut doomed, survivor) = (fleet.reclaimer(), fleet.worker(), fleet.worker());
    for role in [&reclaimer, &doomed, &survivor] {
        fleet.ready(role.ops).await;
    }
    let ids = stage::ids("k01", REQUESTS);
    stage::submit_all(&fleet, &ids).await;
    gateway.wait_for_arrivals(2 * SLOTS, SOON).await;
    pass(time(2.0)).await;
    doomed.process.kill();
    all_end(&fleet, &gateway, Instant::now(), &[&reclaimer, &survivor], &ids).await;
}

/// It dies a moment after its first claim: leased, and perhaps not yet dispatched.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_50_ms_after_its_first_claim_loses_nothing() {
    let _shared = beside_others().await;
    let (fleet, gateway) = begin().await;
    let reclaimer = fleet.reclaimer();
    let mut doomed = fleet.worker();
    fleet.ready(doomed.ops).await;
    fleet.submit("k01-1", &stage::payload("k01-1")).await;
    fleet.wait_for_count("leased", 1, SOON).await;
    // Not scaled: this is about the moment.
    pass(Duration::from_millis(50)).await;
    doomed.process.kill();
    let (killed, survivor) = (Instant::now(), fleet.worker());
    let ids = stage::ids("k01", REQUESTS);
    stage::submit_all(&fleet, &ids[1..]).await;
    all_end(&fleet, &gateway, killed, &[&reclaimer, &survivor], &ids).await;
}

/// Nobody is left, until another worker comes. No process is told of the dead ones' work.
#[tokio::test(flavor = "multi_thread")]
async fn both_workers_are_killed_and_a_later_one_does_all() {
    let _shared = beside_others().await;
    let (fleet, gateway) = begin().await;
    let (reclaimer, mut first, mut second) = (fleet.reclaimer(), fleet.worker(), fleet.worker());
    for role in [&reclaimer, &first, &second] {
        fleet.ready(role.ops).await;
    }
    let ids = stage::ids("k01", REQUESTS);
    stage::submit_all(&fleet, &ids).await;
    gateway.wait_for_arrivals(2 * SLOTS, SOON).await;
    pass(time(2.0)).await;
    first.process.kill();
    second.process.kill();
    let killed = Instant::now();
    // With slots for all, so that only leases are waited for.
    let heir = fleet.worker_with(&[("HOLDFAST_WORKER_CONCURRENCY", "64")]);
    all_end(&fleet, &gateway, killed, &[&reclaimer, &heir], &ids).await;
}
