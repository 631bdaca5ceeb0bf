//! K38: a wake-up is lost.
//!
//! A message that nobody hears is not said again. Whoever sleeps until it comes sleeps for ever, though the result, or the
//! work, is there; it is always the last one that shows it.

use std::time::{Duration, Instant};

use holdfast_testkit::proxy::command;
use holdfast_testkit::{Fault, Proxy, RedisServer, When, eventually};

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::beside_others;
use crate::{aftermath, stage};

/// How late a look by oneself may make up for a lost message: the longest poll, and what an answer takes.
const FALLBACK: Duration = Duration::from_secs(4);

/// Far below the minute that is waited where nobody looks, however busy the machine is.
const LATEST: Duration = Duration::from_secs(15);

/// All but so many came as soon as that: a pause of the machine may meet some of them, but none is left to its wait.
fn assert_looked(mut late: Vec<Duration>, paused: usize) {
    late.sort();
    assert!(late[late.len() - 1 - paused] <= FALLBACK, "{late:?}");
    assert!(late[late.len() - 1] <= LATEST, "{late:?}");
}

/// Waits for one result, while `deafen` is done to whoever listens just before it is there; how long after it that took.
async fn wait_for(fleet: &Fleet, id: &str, deafen: impl AsyncFnOnce()) -> Duration {
    fleet.gateway.hold(true);
    let arrived = fleet.gateway.counts().arrived;
    fleet.submit(id, &stage::payload(id)).await;
    fleet.gateway.wait_for_arrivals(arrived + 1, SOON).await.expect("dispatched");
    let path = format!("/v1/queues/q/requests/{id}/result?wait=60");
    let waiting = fleet.call("GET", &path, b"");
    let ending = async {
        deafen().await;
        fleet.gateway.hold(false);
        fleet.wait_for_count("leased", 0, SOON).await;
        Instant::now()
    };
    let (answer, ended) = tokio::join!(waiting, ending);
    assert_eq!(answer.header("holdfast-outcome"), Some("answered"));
    ended.elapsed()
}

/// Every subscription is cut just before the end that it was to tell of.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_whose_subscription_is_cut_ends_soon_after_the_result_is_there() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let (ids, mut late) = (stage::ids("k38", 5), Vec::new());
    for id in &ids {
        let took = wait_for(&fleet, id, async || {
            fleet.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        })
        .await;
        late.push(took);
    }
    assert_looked(late, 2);
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
}

/// The producer never hears anything again: its subscriptions are made, and lead nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_a_producer_that_is_deaf_ends_soon_after_the_result_is_there() {
    let _shared = beside_others().await;
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let fleet =
        Fleet::with(Setup { redis_url: Some(proxy.url()), ..Setup::default() }, redis).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    let swallowed = proxy.inject(Fault::Swallow, When::Each, command("SSUBSCRIBE"));
    fleet.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    swallowed.wait_fired(1, SOON).await;
    let (ids, mut late) = (stage::ids("k38", 5), Vec::new());
    for id in &ids {
        late.push(wait_for(&fleet, id, async || {}).await);
    }
    assert_looked(late, 2);
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// An idle worker's bell is cut off: it finds the one request that comes by looking for itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_that_is_deaf_starts_a_request_within_its_poll() {
    let _shared = beside_others().await;
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let fleet = Fleet::with(Setup::default(), redis).await;
    let worker = fleet.worker_with(&[("HOLDFAST_REDIS_URL", &proxy.url())]);
    fleet.ready(worker.ops).await;
    let swallowed = proxy.inject(Fault::Swallow, When::Each, command("BLPOP"));
    proxy.cut_all();
    swallowed.wait_fired(1, SOON).await;
    fleet.ready(worker.ops).await;
    let (ids, mut late) = (stage::ids("idle", 5), Vec::new());
    for id in &ids {
        let (arrived, submitted) = (fleet.gateway.counts().arrived, Instant::now());
        fleet.submit(id, &stage::payload(id)).await;
        fleet.gateway.wait_for_arrivals(arrived + 1, SOON).await.expect("dispatched");
        late.push(submitted.elapsed());
    }
    assert_looked(late, 2);
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// The subscription comes before the first look: an end between the two is not missed.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_at_the_moment_of_asking_is_not_missed() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    let ids = stage::ids("edge", 60);
    let mut late = Vec::new();
    for id in &ids {
        fleet.submit(id, &stage::payload(id)).await;
        let asked = Instant::now();
        let answer =
            fleet.call("GET", &format!("/v1/queues/q/requests/{id}/result?wait=60"), b"").await;
        assert_eq!(answer.header("holdfast-outcome"), Some("answered"));
        late.push(asked.elapsed());
    }
    assert_looked(late, 3);
    eventually("nothing is in flight", SOON, async || match fleet.count("leased").await {
        0 => Ok(()),
        leased => Err(format!("{leased} leased")),
    })
    .await;
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
