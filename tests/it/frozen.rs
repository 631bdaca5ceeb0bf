//! Workers that sleep through their lease: what they still want to say is refused.

use std::time::Duration;

use holdfast_testkit::{RedisServer, eventually};

use crate::fleet::{Fleet, LEASE, SOON, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_slept_through_its_lease_publishes_nothing() {
    let fleet = Fleet::start().await;
    let _reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let mut sleeper = fleet.worker();
    fleet.submit("k02", "{\"content\":\"<k02>\"}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    sleeper.process.freeze();

    // Another takes over, and answers. The sleeper's answer waits in its socket.
    let heir = fleet.worker();
    fleet.gateway.wait_for_arrivals(2, LEASE + SOON).await.expect("dispatched again");
    fleet.gateway.hold(false);
    let (outcome, first) = fleet.result("k02").await;
    assert_eq!(outcome, "answered");
    fleet.gateway.wait_until(SOON, |counts| counts.given == 2).await.expect("answers");

    sleeper.process.wake();
    eventually("the sleeper is refused", SOON, async || {
        match fleet.metric(&sleeper, "holdfast_settles_total", "outcome=\"fenced\"").await {
            0.0 => Err("not fenced yet"),
            _ => Ok(()),
        }
    })
    .await;
    let (_, again) = fleet.result("k02").await;
    assert_eq!(again.body, first.body, "one record, never changed");
    assert_eq!(again.header("holdfast-attempts"), Some("2"));
    assert_eq!(fleet.metric(&heir, "holdfast_settles_total", "outcome=\"ack\"").await, 1.0);
    eventually("nothing is in flight", SOON, async || {
        match fleet.metric(&sleeper, "holdfast_in_flight", "").await {
            0.0 => Ok(()),
            count => Err(format!("{count} in flight")),
        }
    })
    .await;
    for role in [&mut sleeper.process] {
        assert!(role.terminate().await.success(), "a fenced worker drains like any other");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_whose_request_waits_elsewhere_is_fenced_too() {
    // Nobody has claimed it anew: it is pending, owned by no one. A missing owner is not a free one.
    let setup = Setup { queue: "concurrency = 1".to_owned(), ..Setup::default() };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let _reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let mut sleeper = fleet.worker();
    fleet.submit("alone", "{\"content\":\"<alone>\"}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    sleeper.process.freeze();
    fleet.wait_for_count("pending", 1, LEASE + Duration::from_secs(10)).await;
    fleet.gateway.hold(false);
    fleet.gateway.wait_until(SOON, |counts| counts.given == 1).await.expect("an answer");
    fleet.gateway.hold(true);
    sleeper.process.wake();

    // It may claim the request again, as anybody may, but not settle it by the lease it lost.
    fleet.gateway.wait_for_arrivals(2, SOON).await.expect("dispatched again, under a new lease");
    assert_eq!(
        fleet.result_now("alone").await.status,
        202,
        "the lost lease's answer was published"
    );
    fleet.gateway.hold(false);
    let (outcome, record) = fleet.result("alone").await;
    assert_eq!(outcome, "answered");
    assert_eq!(record.header("holdfast-attempts"), Some("2"));
}
