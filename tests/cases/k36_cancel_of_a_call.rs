//! K36: a cancel reaches the call that is under way.
//!
//! Where cancel is looked at before a dispatch only, the gateway goes on computing for nobody, and its answer may still
//! be published.

use std::time::{Duration, Instant};

use holdfast_testkit::{Proxy, RedisServer, Value, eventually};

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::raw_gateway::{Answer, Asked, RawGateway};
use crate::{aftermath, stage};

async fn cancel(fleet: &Fleet, id: &str) -> u16 {
    fleet.call("DELETE", &format!("/v1/queues/q/requests/{id}"), b"").await.status
}

/// The call is closed within `limit` of `since`, its slot is free again, and the outcome stands.
async fn closed(
    fleet: &Fleet,
    gateway: &RawGateway,
    worker: &Role,
    since: Instant,
    limit: Duration,
) {
    gateway.wait_until("the call is closed", limit + SOON, |all| all[0].is_aborted()).await;
    let took = gateway.arrivals()[0].end.expect("an end").1.duration_since(since);
    assert!(took <= limit, "the gateway went on for {took:?}");
    assert_eq!(fleet.result("k36-1").await.0, "cancelled");
    eventually("the slot is free", SOON, async || {
        match fleet.metric(worker, "holdfast_in_flight", "").await {
            0.0 => Ok(()),
            busy => Err(format!("{busy} in flight")),
        }
    })
    .await;
    // The only slot: it takes the next one at once.
    gateway.plan(|_| Answer::ok());
    fleet.submit("next", &stage::payload("next")).await;
    assert_eq!(fleet.result("next").await.0, "answered");
}

/// One slot, one call of 60 s in it, by a worker whose Redis may be elsewhere.
async fn one_long_call(fleet: &mut Fleet, redis: Option<&Proxy>) -> (RawGateway, Role) {
    let gateway =
        RawGateway::instead_of(&mut fleet.gateway, |_| Answer::ok().after(time(60.0))).await;
    let worker = match redis {
        Some(proxy) => fleet.worker_with(&[("HOLDFAST_REDIS_URL", &proxy.url())]),
        None => fleet.worker(),
    };
    fleet.ready(worker.ops).await;
    // A push before it listens is lost, and the next renewal tells it: that is another story.
    eventually("the worker listens", SOON, async || {
        let asked = fleet.redis.command(&["PUBSUB", "SHARDNUMSUB", "hf1:{q/0}:cancel"]).await;
        match &asked {
            Value::Array(parts) if parts.get(1) == Some(&Value::Int(1)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    stage::submit_all(fleet, &stage::ids("k36", 1)).await;
    gateway.wait_for_arrivals(1, SOON).await;
    (gateway, worker)
}

fn setup() -> Setup {
    // Not scaled: these are the usual times, and a cancel must not wait for them.
    Setup { worker: stage::worker(1, Duration::from_secs(15)), ..Setup::default() }
}

/// All is well: the push is enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_is_closed_at_once_and_its_slot_is_free() {
    let _shared = beside_others().await;
    let mut fleet = stage::fleet(setup()).await;
    let (gateway, worker) = one_long_call(&mut fleet, None).await;
    let asked = Instant::now();
    assert!(matches!(cancel(&fleet, "k36-1").await, 200 | 202));
    // Far less than a renewal: it was pushed.
    closed(&fleet, &gateway, &worker, asked, Duration::from_secs(4)).await;
    assert_eq!(cancel(&fleet, "k36-1").await, 200);
    let ids = ["k36-1", "next"].map(str::to_owned);
    assert_eq!(aftermath::of(&fleet, &ids, &[&worker]).await, ["cancelled", "answered"]);
}

/// The worker is cut off from Redis while the cancel comes: its renewal tells it, once it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_the_worker_is_cut_off_reaches_it_afterwards() {
    let _shared = beside_others().await;
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let mut fleet = Fleet::with(setup(), redis).await;
    let (gateway, worker) = one_long_call(&mut fleet, Some(&proxy)).await;
    proxy.go_down();
    assert_eq!(cancel(&fleet, "k36-1").await, 202, "nobody can have told the worker yet");
    pass(time(5.0)).await;
    assert!(!gateway.arrivals()[0].is_aborted(), "the worker gave up a call that it still holds");
    assert_eq!(fleet.status("k36-1").await["state"], "cancelling");
    proxy.restore();
    // A renewal each 5 s, and what a connection takes to come back; before the lease of 15 s is over.
    closed(&fleet, &gateway, &worker, Instant::now(), Duration::from_secs(12)).await;
    let ids = ["k36-1", "next"].map(str::to_owned);
    assert_eq!(aftermath::of(&fleet, &ids, &[&worker]).await, ["cancelled", "answered"]);
}

/// The answer is on its way when the cancel comes: what was told stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_does_not_replace_a_cancelled_outcome() {
    let _shared = beside_others().await;
    let setup = Setup { worker: stage::worker(1, time(15.0)), ..Setup::default() };
    let plan = |_: &Asked<'_>| Answer::ok().after(time(5.0));
    let (fleet, gateway) = stage::raw(setup, plan).await;
    let (mut worker, ids) = (fleet.worker(), stage::ids("k36", 1));
    stage::submit_all(&fleet, &ids).await;
    gateway.wait_for_arrivals(1, SOON).await;
    // Frozen, the worker learns of nothing; its lease is ended, and the cancel met, by a reclaimer.
    worker.process.freeze();
    assert_eq!(cancel(&fleet, "k36-1").await, 202);
    let reclaimer = fleet.reclaimer();
    assert_eq!(fleet.result_within("k36-1", time(15.0) + SOON).await.0, "cancelled");
    gateway.wait_until("the answer lies in its socket", SOON, |all| all[0].end.is_some()).await;
    assert!(!gateway.arrivals()[0].is_aborted());
    worker.process.wake();
    eventually("the late answer is refused", SOON, async || {
        match fleet.metric(&worker, "holdfast_settles_total", "outcome=\"fenced\"").await {
            1.0 => Ok(()),
            count => Err(format!("refused {count} times")),
        }
    })
    .await;
    assert_eq!(aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await, ["cancelled"]);
}
