//! K87: a server that drops keys when its memory is short.
//!
//! Some settings of it let whole queues vanish, others whatever has a time to live, and nobody is told.

use std::time::Duration;

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::beside_others;
use crate::{aftermath, stage};
use holdfast_testkit::RedisServer;

async fn with_policy(policy: &str) -> Fleet {
    let redis = RedisServer::start().await;
    redis.command(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
    redis.command(&["CONFIG", "SET", "maxmemory-policy", policy]).await;
    Fleet::without_producer(Setup::default(), redis).await
}

/// Any key may go: no role works with such a server, and each says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_drop_any_key_is_refused_by_name() {
    let _shared = beside_others().await;
    for policy in ["allkeys-lru", "allkeys-random"] {
        let fleet = with_policy(policy).await;
        for mut role in [fleet.worker(), fleet.reclaimer()] {
            let status = role.process.wait(SOON).await;
            let output = role.process.output();
            assert_eq!(status.code(), Some(1), "{policy}: {output}");
            assert!(output.contains(&format!("maxmemory-policy {policy}")), "{policy}: {output}");
        }
    }
}

/// Only what has a time to live may go: nothing of ours has, which is said, and shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_drops_what_has_a_ttl_is_warned_of_and_used() {
    let _shared = beside_others().await;
    let fleet = with_policy("volatile-lru").await;
    fleet.start_producer().await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    worker
        .process
        .wait_for_line(|line| line.contains("WARN") && line.contains("volatile-lru"), SOON)
        .await;
    assert_eq!(
        fleet.metric(&worker, "holdfast_redis_fault", "reason=\"eviction-policy\"").await,
        1.0
    );
    let ids = stage::ids("k87", 3);
    stage::submit_all(&fleet, &ids).await;
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// A server that does not say: that is told as what it is, and is no error.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_let_us_look_is_said_to_be_one() {
    let _shared = beside_others().await;
    let redis = RedisServer::start().await;
    redis
        .command(&["ACL", "SETUSER", "ad", "on", ">pw", "~*", "&*", "+@all", "-info", "-config"])
        .await;
    let url = format!("redis://ad:pw@127.0.0.1:{}", redis.port());
    let fleet = Fleet::with(Setup { redis_url: Some(url), ..Setup::default() }, redis).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    worker
        .process
        .wait_for_line(|line| line.contains("INFO is not allowed"), Duration::from_secs(5))
        .await;
    assert_eq!(fleet.metric(&worker, "holdfast_redis_fault", "reason=\"unreadable\"").await, 1.0);
    let ids = stage::ids("k87", 3);
    stage::submit_all(&fleet, &ids).await;
    for id in &ids {
        assert_eq!(fleet.result(id).await.0, "answered");
    }
}
