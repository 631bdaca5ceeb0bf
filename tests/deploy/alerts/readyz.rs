//! Each reason that `/readyz` may tell, made to happen.
//!
//! Other tests hold each of them longer and look at what else happens: `tests/cases/k98_probes.rs` a Redis that hangs and
//! is gone, `k84_refused_writes.rs` one that takes no writes, `k86_busy_redis.rs` one that is busy.

use std::time::Duration;

use holdfast_core::redis::Trouble;
use holdfast_testkit::{RedisServer, eventually};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::fleet::{Fleet, Role, SOON, Setup};

/// Waits until a role says of this part that this is why it is not ready.
async fn not_ready(fleet: &Fleet, role: &Role, part: &str, reason: &str) {
    eventually(&format!("{part} is {reason}"), SOON, async || {
        let url = format!("http://127.0.0.1:{}/readyz", role.ops);
        let answer = fleet.http.try_request("GET", &url, &[], "").await?;
        let told: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let status = if part == "process" { "draining" } else { "not-ready" };
        let reasons = told["reasons"][part].as_str().unwrap_or_default();
        // What is denied is named where Redis names it.
        let named = reasons.split(": ").next() == Some(reason);
        if answer.status == 503 && named && told["status"] == status {
            Ok(())
        } else {
            Err(format!("{}: {told}", answer.status))
        }
    })
    .await;
}

/// A fleet whose roles log in as a user that a test may take rights from.
async fn fleet(redis_lines: &str) -> Fleet {
    let redis = RedisServer::start().await;
    redis.command(&["ACL", "SETUSER", "role", "on", ">pw", "~*", "&*", "+@all"]).await;
    let redis_url = Some(format!("redis://role:pw@127.0.0.1:{}", redis.port()));
    let setup = Setup { redis_url, redis: redis_lines.to_owned(), ..Setup::default() };
    Fleet::without_producer(setup, redis).await
}

/// Brings a trouble about. A variant that is new must find its place here.
async fn bring(fleet: &Fleet, trouble: Trouble) {
    let redis = &fleet.redis;
    let words: &[&str] = match trouble {
        Trouble::Unreachable => return redis.pause(),
        Trouble::ReadOnly => &["CONFIG", "SET", "min-replicas-to-write", "1"],
        Trouble::Denied => &["ACL", "SETUSER", "role", "-@all"],
        Trouble::NotReady => {
            redis.command(&["CONFIG", "SET", "busy-reply-threshold", "100"]).await;
            // It never answers, but to the one who kills it.
            let forever = redis.try_command(&["EVAL", "while true do end", "0"]);
            let _ = tokio::time::timeout(Duration::from_millis(500), forever).await;
            return;
        }
    };
    assert_eq!(redis.command(words).await.text(), Some("OK"), "{words:?}");
}

async fn take_away(fleet: &Fleet, trouble: Trouble) {
    let redis = &fleet.redis;
    let words: &[&str] = match trouble {
        Trouble::Unreachable => return redis.resume(),
        Trouble::ReadOnly => &["CONFIG", "SET", "min-replicas-to-write", "0"],
        Trouble::Denied => &["ACL", "SETUSER", "role", "+@all"],
        Trouble::NotReady => &["SCRIPT", "KILL"],
    };
    assert_eq!(redis.command(words).await.text(), Some("OK"), "{words:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_trouble_of_redis_is_a_reason_and_goes_with_it() {
    let fleet = fleet("").await;
    let reclaimer = fleet.reclaimer();
    fleet.ready(reclaimer.ops).await;
    let troubles = [Trouble::Unreachable, Trouble::ReadOnly, Trouble::Denied, Trouble::NotReady];
    for trouble in troubles {
        bring(&fleet, trouble).await;
        not_ready(&fleet, &reclaimer, "redis", trouble.word()).await;
        take_away(&fleet, trouble).await;
        fleet.ready(reclaimer.ops).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_that_are_not_declared_are_a_reason_before_the_first_look_and_after_it() {
    // The first look lasts as long as a call may.
    let fleet = fleet("command_timeout = \"8s\"").await;
    fleet.redis.pause();
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    for reason in ["starting", "queues are not declared yet"] {
        tokio::join!(
            not_ready(&fleet, &worker, "queues", reason),
            not_ready(&fleet, &reclaimer, "queues", reason),
        );
    }
    fleet.redis.resume();
    for role in [&worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_says_so_until_it_has() {
    let fleet = fleet("").await;
    fleet.start_producer().await;
    let mut worker = fleet.worker();
    fleet.ready(worker.ops).await;
    fleet.gateway.hold(true);
    fleet.submit("held", "{}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    worker.process.signal(Signal::SIGTERM);
    not_ready(&fleet, &worker, "process", "draining").await;
    fleet.gateway.hold(false);
    assert!(worker.process.wait(SOON).await.success());
}
