//! K98: probes that ask Redis.
//!
//! A liveness that depends on Redis restarts every process of a fleet when Redis is away for a moment; a probe that waits
//! for it is counted as failed as well.

use std::time::{Duration, Instant};

use holdfast_testkit::{Fault, Proxy, RedisServer, When};

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, full, time};
use crate::stage::{self, Api};

/// A probe answers within this: far less than a look at Redis may take. A short run has other tests beside it.
fn quick() -> Duration {
    Duration::from_millis(if full() { 250 } else { 1000 })
}

/// Nearly all probes are quick: one that waits for Redis makes most of them slow, a pause of the machine a few.
fn assert_quick(took: &[Duration]) {
    let slow = took.iter().filter(|took| **took >= quick()).count();
    let few = if full() { 0 } else { took.len().div_ceil(10) };
    assert!(slow <= few, "{slow} of {} probes were slow: {took:?}", took.len());
}

/// How soon a role is ready again once Redis is. A short run has other tests beside it.
fn back() -> Duration {
    Duration::from_secs(if full() { 8 } else { 20 })
}

/// Alive at each look of a while, and quick; when it was first not ready, and for how long it then stayed so.
async fn watch(fleet: &Fleet, roles: &[&Role], lasts: Duration) {
    let since = Instant::now();
    let (mut unready, mut all) = (vec![None; roles.len()], Vec::new());
    while since.elapsed() < lasts || unready.contains(&None) {
        for (role, unready) in roles.iter().zip(&mut unready) {
            let (status, _, took) = stage::probe(fleet, role.ops, "livez").await;
            assert!(status == 200, "livez: {status} after {took:?}");
            all.push(took);
            let (status, reasons, took) = stage::probe(fleet, role.ops, "readyz").await;
            all.push(took);
            if status == 503 {
                assert!(reasons.contains("redis") && reasons.contains("unreachable"), "{reasons}");
                unready.get_or_insert(since.elapsed());
            }
        }
        assert!(since.elapsed() < lasts + SOON, "a role is ready all the time");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_quick(&all);
    let limit = Duration::from_secs(if full() { 6 } else { 15 });
    for after in unready.into_iter().flatten() {
        assert!(after < limit, "a role was not ready only after {after:?}");
    }
}

async fn all_ready_again(fleet: &Fleet, roles: &[&Role], limit: Duration) {
    let since = Instant::now();
    for role in roles {
        fleet.ready(role.ops).await;
    }
    assert!(since.elapsed() < limit, "ready again only after {:?}", since.elapsed());
}

/// Redis hangs, then it is gone: alive all the time, not ready soon, and ready again by itself.
#[tokio::test(flavor = "multi_thread")]
async fn without_redis_every_role_is_alive_and_not_ready() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let (api, worker, reclaimer) = (Api::start(&fleet).await, fleet.worker(), fleet.reclaimer());
    let roles = [&api.role, &worker, &reclaimer];
    all_ready_again(&fleet, &roles, back()).await;
    fleet.redis.pause();
    watch(&fleet, &roles, time(16.0)).await;
    fleet.redis.resume();
    all_ready_again(&fleet, &roles, back()).await;
    fleet.redis.kill().await;
    watch(&fleet, &roles, time(16.0)).await;
    fleet.redis.restart().await;
    all_ready_again(&fleet, &roles, back()).await;
}

/// Redis is slow: probes are not.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_redis_makes_no_probe_slow() {
    let _shared = beside_others().await;
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let fleet =
        Fleet::with(Setup { redis_url: Some(proxy.url()), ..Setup::default() }, redis).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    all_ready_again(&fleet, &[&worker, &reclaimer], SOON).await;
    proxy.inject(
        Fault::DelayReply(Duration::from_secs(2)),
        When::Each,
        holdfast_testkit::proxy::anything(),
    );
    let (since, mut all) = (Instant::now(), Vec::new());
    while since.elapsed() < time(16.0) {
        for path in ["livez", "readyz", "metrics"] {
            let (.., took) = stage::probe(&fleet, worker.ops, path).await;
            all.push(took);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_quick(&all);
    assert_eq!(stage::probe(&fleet, worker.ops, "livez").await.0, 200);
}
