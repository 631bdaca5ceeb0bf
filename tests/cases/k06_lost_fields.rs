//! K06: a lease whose request is lost does not hold up the reclaimer.
//!
//! One element that can't be handled must not make a whole pass fail, pass after pass, while others wait behind it.

use std::time::Duration;

use holdfast_testkit::Value;

use crate::aftermath;
use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::stage::{self, ByHand};

const REQUESTS: usize = 5;

/// Five leases of a worker that is dead, with a field of the oldest gone; then a reclaimer.
async fn oldest_loses_its(field: &str, harm: &[u8]) {
    let _shared = beside_others().await;
    let setup = Setup {
        worker: stage::worker(8, time(6.0)),
        reclaimer: stage::reclaimer(time(2.0)),
        ..Setup::default()
    };
    let fleet = stage::fleet(setup).await;
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker();
    let ids = stage::ids("k06", REQUESTS);
    stage::submit_all(&fleet, &ids).await;
    fleet.gateway.wait_for_arrivals(REQUESTS as u64, SOON).await.expect("dispatched");
    let leases = ByHand::on(&fleet).leases(&fleet).await;
    let oldest = leases
        .iter()
        .map(|(_, handle)| *handle)
        .min_by_key(|handle| handle.sequence())
        .expect("leases");
    doomed.process.kill();
    let (hash, key) = (format!("hf1:{{q/0}}:{field}"), oldest.key());
    let harmed = match harm {
        b"" => fleet.redis.command(&[&b"HDEL"[..], hash.as_bytes(), key.as_bytes()]).await,
        harm => fleet.redis.command(&[&b"HSET"[..], hash.as_bytes(), key.as_bytes(), harm]).await,
    };
    assert!(matches!(harmed, Value::Int(_)), "{harmed:?}");

    // The four others come back by the same pass that ends the broken one.
    let reclaimer = fleet.reclaimer();
    fleet.wait_for_count("pending", 4, time(8.0) + SOON).await;
    assert_eq!((fleet.count("leased").await, fleet.count("dead").await), (0, 1));
    quiet_passes(&fleet, &reclaimer).await;
    fleet.gateway.hold(false);
    let heir = fleet.worker();
    let outcomes = aftermath::of(&fleet, &ids, &[&heir, &reclaimer]).await;
    assert_eq!(outcomes, ["unusable", "answered", "answered", "answered", "answered"]);
    let arrivals = [1, 2, 2, 2, 2];
    for (id, expected) in ids.iter().zip(arrivals) {
        assert_eq!(fleet.arrivals_of(&stage::mark(id)).len(), expected, "dispatches of {id}");
    }
}

/// Passes over what is left bring no more lines.
async fn quiet_passes(fleet: &Fleet, reclaimer: &crate::fleet::Role) {
    let lines = |text: String| text.lines().count();
    reclaimer.process.wait_for_line(|line| line.contains("leases lapsed"), SOON).await;
    let before = lines(reclaimer.process.output());
    pass(time(2.0) * 4 + Duration::from_millis(100)).await;
    let after = reclaimer.process.output();
    assert_eq!(lines(after.clone()), before, "the same is told again and again:\n{after}");
    assert_eq!(fleet.metric(reclaimer, "holdfast_ends_total", "outcome=\"unusable\"").await, 1.0);
}

/// Its payload is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_its_request_ends_and_the_others_come_back() {
    oldest_loses_its("request", b"").await;
}

/// Its state is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_its_ticket_ends_and_the_others_come_back() {
    oldest_loses_its("ticket", b"").await;
}

/// Its state is no state.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_ticket_is_garbage_ends_and_the_others_come_back() {
    oldest_loses_its("ticket", b"\x01garbage").await;
}
