//! K17: a request in back-off waits, and waits alone.
//!
//! A back-off that changes a request's place but not its time made a queue try one request hundreds of times a minute,
//! ahead of everything new.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, full, pass};
use crate::raw_gateway::{Answer, Arrival, Asked};
use crate::{aftermath, stage};

/// Beside the wait itself: the answer, the settle, the claim. A short run has other tests beside it.
fn slack() -> Duration {
    Duration::from_millis(if full() { 900 } else { 3000 })
}

/// How long the gateway refuses. The steps are the project's own and can't be scaled, so a short run sees the first ones.
fn refused_for() -> Duration {
    Duration::from_secs(if full() { 50 } else { 6 })
}

/// Each try comes after its step, and no later than it takes.
fn are_spaced(tries: &[Arrival]) {
    for (at, two) in tries.windows(2).enumerate() {
        let (step, gap) = (Duration::from_secs(1 << at), two[1].at - two[0].at);
        assert!(gap >= step / 2 && gap <= step + slack(), "retry {} came after {gap:?}", at + 1);
    }
}

/// A hundred new requests, and how long they take.
async fn a_hundred_pass(fleet: &Fleet) -> (Vec<String>, Duration) {
    let (fresh, added) = (stage::ids("fresh", 100), Instant::now());
    for id in &fresh {
        let payload = stage::payload(id);
        let item = format!("{{\"id\":\"{id}\",\"timeout\":\"2m\",\"payload\":{payload}}}");
        assert_eq!(fleet.post(&item).await.status, 202);
    }
    fleet.wait_for_count("finished", fresh.len() as i64, SOON).await;
    (fresh, added.elapsed())
}

/// A gateway that is always busy for one request: each gap is longer, and a hundred new requests pass by.
#[tokio::test(flavor = "multi_thread")]
async fn the_gaps_grow_and_new_requests_pass_the_one_that_waits() {
    let _shared = beside_others().await;
    let open = Arc::new(AtomicBool::new(false));
    let is_open = Arc::clone(&open);
    let plan = move |asked: &Asked<'_>| match asked.has("<busy>") && !is_open.load(Ordering::SeqCst)
    {
        true => Answer::with(429, &[], "{\"error\":{\"message\":\"busy\"}}"),
        false => Answer::ok(),
    };
    // One slot: whoever held it during a wait would hold up all others.
    let setup = Setup { worker: stage::worker(1, Duration::from_secs(15)), ..Setup::default() };
    let (fleet, gateway) = stage::raw(setup, plan).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let (deadline, payload) = (stage::unix() + 600, stage::payload("busy"));
    let item = format!("{{\"id\":\"busy\",\"deadline\":{deadline},\"payload\":{payload}}}");
    assert_eq!(fleet.post(&item).await.status, 202);
    pass(refused_for()).await;
    let tries = gateway.arrivals_of("<busy>").len();
    let expected = if full() { 5..=8 } else { 3..=4 };
    assert!(expected.contains(&tries), "tried {tries} times");

    let (mut ids, took) = a_hundred_pass(&fleet).await;
    assert!(took < Duration::from_secs(25), "new requests were held up for {took:?}");
    assert_eq!(fleet.status("busy").await["deadline"], deadline, "its deadline is its own");
    open.store(true, Ordering::SeqCst);
    let longest = Duration::from_secs(if full() { 70 } else { 20 });
    assert_eq!(fleet.result_within("busy", longest).await.0, "answered");
    ids.push("busy".to_owned());
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
    let tries = gateway.arrivals_of("<busy>");
    are_spaced(&tries);
    let retries = fleet.metric(&worker, "holdfast_retries_total", "reason=\"4xx\"").await;
    assert_eq!(retries as usize + 1, tries.len(), "every retry is counted");
}
