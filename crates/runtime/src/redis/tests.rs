//! What a probe is told while Redis comes, hangs and goes.

use std::time::Instant;

use holdfast_core::script;
use holdfast_testkit::proxy::evalsha;
use holdfast_testkit::{Proxy, RedisServer, eventually};

use crate::{Environment, Health, Services, Settings};

use super::*;

/// Within this a probe must know.
const SOON: Duration = Duration::from_secs(5);

async fn opened(url: &str) -> (Services, Health) {
    let text = format!("[redis]\nurl = \"{url}\"\n");
    let settings = Settings::load(&text, &Environment::default()).unwrap();
    let mut services = Services::new();
    services.open_redis(&settings.redis).unwrap();
    let health = services.health().clone();
    (services, health)
}

/// What the probe says, which it does at once: one that waits does so each time, a machine that is busy does not.
fn told(health: &Health) -> Option<String> {
    for _ in 0..5 {
        let started = Instant::now();
        let reasons = health.reasons();
        if started.elapsed() < Duration::from_millis(100) {
            return reasons.get("redis").cloned();
        }
    }
    panic!("a probe waited");
}

async fn becomes(health: &Health, what: Option<&str>) {
    eventually("the probe knows", SOON, async || {
        let told = told(health);
        if told.as_deref() == what { Ok(()) } else { Err(format!("it says {told:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_process_with_nothing_to_do_notices_that_redis_hangs_and_that_it_is_back() {
    let server = RedisServer::start().await;
    let (_services, health) = opened(server.url()).await;
    becomes(&health, None).await;
    server.pause();
    becomes(&health, Some("unreachable")).await;
    server.resume();
    becomes(&health, None).await;
    server.kill().await;
    becomes(&health, Some("unreachable")).await;
    server.restart().await;
    becomes(&health, None).await;
}

#[tokio::test]
async fn a_process_with_nothing_to_do_notices_that_writes_are_taken_again() {
    let server = RedisServer::start().await;
    let (queue, shards) = ("q".try_into().unwrap(), std::num::NonZeroU32::MIN);
    let redis = Redis::open(holdfast_core::redis::Options::new(server.url())).unwrap();
    Register::Queue(&queue, shards).run(&redis).await.unwrap();
    let watched = Watched::new(redis.clone());
    let health = Health::default();
    let probed = watched.clone();
    health.watch("redis", move || probed.probe());
    let mut watching = tokio::task::JoinSet::new();
    watching.spawn(watched.run(CancellationToken::new()));
    becomes(&health, None).await;

    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    Register::Queue(&queue, shards).run(&redis).await.unwrap_err();
    becomes(&health, Some("read-only")).await;
    // Several looks, each of them answered: reads go well all the time.
    for _ in 0..30 {
        assert_eq!(told(&health).as_deref(), Some("read-only"));
        sleep(REST / 10).await;
    }
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    becomes(&health, None).await;
}

#[tokio::test]
async fn redis_is_asked_only_when_somebody_asks_us_and_then_seldom() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port()).await;
    let rows = script::questions().into_iter().find(|it| it.name == "rows").unwrap();
    // Known to the server: else the first look is sent twice.
    server.command(&["SCRIPT", "LOAD", &rows.text]).await;
    let looks = proxy.count(evalsha(&rows.sha1));
    let (_services, health) = opened(&proxy.url()).await;
    becomes(&health, None).await;
    let started = Instant::now();
    eventually("two looks", SOON, async || {
        told(&health);
        if looks.matched() >= 2 { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert!(started.elapsed() >= REST, "two looks within {:?}", started.elapsed());
    // Nobody asks any more. One look may be on its way, and one more have been asked for since.
    sleep(3 * REST).await;
    let so_far = looks.matched();
    assert!(so_far <= 4, "{so_far} looks");
    sleep(2 * REST).await;
    assert_eq!(looks.matched(), so_far, "a look that nobody asked for");
}
