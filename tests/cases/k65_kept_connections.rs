//! K65: a kept connection is closed at the moment in which it is used again.
//!
//! A POST on such a connection fails, and no client library repeats it. One request in a few thousand was lost that way.

use std::time::{Duration, Instant};

use rand::RngExt;

use crate::fleet::Setup;
use crate::pace::{beside_others, count, full, pass, time};
use crate::raw_gateway::{Answer, Manners, RawGateway};
use crate::{aftermath, stage};

/// One request at a time, each as the gateway is about to close the connection of the last.
async fn closed_as_it_is_used_again() {
    let (fleet, gateway) = stage::raw(Setup::default(), |_| Answer::ok()).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    let idle = time(1.0);
    gateway.manners(Manners { idle: Some(idle), ..Manners::default() });
    let ids = stage::ids("k65", count(600, 24));
    let mut due = Instant::now();
    for id in &ids {
        fleet.submit(id, &stage::payload(id)).await;
        // Around the moment of the close: the gateway counts from its answer, the submit takes a little.
        let spread = rand::rng().random_range(0..15);
        due = due.max(Instant::now()) + idle - Duration::from_millis(10)
            + Duration::from_millis(spread);
        while Instant::now() < due {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let outcomes = aftermath::of(&fleet, &ids, &[&worker]).await;
    assert!(outcomes.iter().all(|outcome| outcome == "answered"), "{outcomes:?}");
    let mut peers: Vec<u16> = gateway.arrivals().iter().map(|arrival| arrival.peer).collect();
    peers.dedup();
    assert!(peers.len() > 1, "no connection was ever closed: nothing was tried");
}

/// The gateway restarts again and again under load.
async fn restarted_under_load() {
    let (fleet, mut gateway) =
        stage::raw(Setup::default(), |_| Answer::ok().after(Duration::from_millis(20))).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    let mut ids = Vec::new();
    for restart in 0..count(12, 3) {
        let (until, first) = (Instant::now() + time(5.0), ids.len());
        while Instant::now() < until && ids.len() < first + 200 {
            let id = format!("k65-{restart}-{}", ids.len());
            fleet.submit(&id, &stage::payload(&id)).await;
            ids.push(id);
        }
        // Connections are cut in the middle of calls, and for a moment nobody listens.
        drop(gateway);
        pass(Duration::from_millis(if full() { 500 } else { 100 })).await;
        gateway = RawGateway::at(fleet.gateway.address(), |_| {
            Answer::ok().after(Duration::from_millis(20))
        })
        .await;
    }
    let outcomes = aftermath::of(&fleet, &ids, &[&worker]).await;
    assert!(outcomes.iter().all(|outcome| outcome == "answered"), "{outcomes:?}");
    let retried = fleet.metric(&worker, "holdfast_retries_total", "").await;
    assert!(retried > 0.0, "no call was cut: nothing was tried");
    let told: f64 = fleet
        .metric(&worker, "holdfast_dispatch_seconds_count", "outcome=\"reset\"")
        .await
        + fleet.metric(&worker, "holdfast_dispatch_seconds_count", "outcome=\"connect\"").await
        + fleet.metric(&worker, "holdfast_dispatch_seconds_count", "outcome=\"cut-body\"").await;
    assert!(told > 0.0, "no metric tells of cut calls");
}

/// Whenever a gateway closes a connection, no request is lost by it.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_closed_at_any_moment_cost_no_request() {
    let _shared = beside_others().await;
    tokio::join!(closed_as_it_is_used_again(), restarted_under_load());
}
