//! Limits of tenants over several producers.

use std::fs;
use std::time::Duration;

use holdfast_runtime::keys::Key;
use holdfast_testkit::http::Answer;
use holdfast_testkit::{RedisServer, eventually};
use serde_json::Value;
use tokio::time::Instant;

use crate::fleet::{Fleet, Role, SOON, Setup};

/// What the noisy one may have at once, in all shards together.
const QUEUED: usize = 20;

/// Two producers over one Redis, and a key for each of two tenants.
struct Two {
    fleets: [Fleet; 2],
    _roles: [Role; 2],
    noisy: Key,
    quiet: Key,
    _folder: tempfile::TempDir,
}

impl Two {
    async fn start(limits: &str, queue: &str) -> Self {
        let [noisy, quiet] = [Key::random(), Key::random()];
        let folder = tempfile::tempdir().expect("a folder");
        let keys = folder.path().join("keys");
        let line = |tenant: &str, key: &Key| {
            format!("tenant={tenant} scopes=submit,read sha256={}\n", key.hash())
        };
        fs::write(&keys, line("noisy", &noisy) + &line("quiet", &quiet)).expect("keys");
        let setup = Setup {
            producer: format!("keys_file = \"{}\"", keys.display()),
            queue: queue.to_owned(),
            more: format!("[tenants.noisy]\n{limits}"),
            ..Setup::default()
        };
        let first = Fleet::without_producer(setup.clone(), RedisServer::start().await).await;
        let redis_url = Some(first.redis.url().to_owned());
        // Its own Redis is not used.
        let second =
            Fleet::without_producer(Setup { redis_url, ..setup }, RedisServer::start().await).await;
        let fleets = [first, second];
        let program = env!("CARGO_BIN_EXE_it-producer");
        let roles = fleets.each_ref().map(|fleet| fleet.role("producer", program, &[]));
        for (fleet, role) in fleets.iter().zip(&roles) {
            fleet.ready(role.ops).await;
        }
        Self { fleets, _roles: roles, noisy, quiet, _folder: folder }
    }

    /// Submits by one of the producers.
    async fn submit(&self, by: usize, key: &Key, id: &str) -> Answer {
        let authorization = format!("Bearer {}", key.expose());
        let headers =
            [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let body = format!(r#"{{"id":"{id}","timeout":"10m","payload":{{"id":"{id}"}}}}"#);
        let fleet = &self.fleets[by % 2];
        fleet.http.request("POST", &fleet.api("/v1/queues/q/requests"), &headers, body).await
    }
}

/// The limit that a refusal names.
fn limit_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 429, "{}", answer.text());
    let again: u64 = answer.header("retry-after").expect("a time").parse().expect("a number");
    assert!((1..=120).contains(&again), "{again}");
    let body: Value = serde_json::from_slice(&answer.body).expect("a problem");
    assert_eq!(body["type"], "/problems/tenant-over-limit");
    body["limit"].as_str().expect("a limit").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_noisy_tenant_is_held_to_its_limits_by_two_producers_and_starves_nobody() {
    let limits = format!("queued = {QUEUED}");
    // Without its limit, the noisy one alone would fill the queue.
    let two = Two::start(&limits, "capacity = 40\nshards = 4").await;
    let mut kept = Vec::new();
    for number in 0..200 {
        let id = format!("noisy-{number}");
        let answer = two.submit(number, &two.noisy, &id).await;
        match answer.status {
            202 => kept.push(id),
            _ => assert_eq!(limit_of(&answer), "queued"),
        }
    }
    assert_eq!(kept.len(), QUEUED, "each shard its part, by both producers together");
    // A repeat is no more than what is there, by either of them.
    for by in 0..2 {
        let repeat = two.submit(by, &two.noisy, &kept[0]).await;
        assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (200, Some("true")));
    }
    for number in 0..10 {
        let answer = two.submit(number, &two.quiet, &format!("quiet-{number}")).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }

    // What ends makes room.
    let _worker = two.fleets[0].worker();
    eventually("there is room again", SOON, async || {
        let answer = two.submit(1, &two.noisy, "noisy-again").await;
        if answer.status == 202 { Ok(()) } else { Err(limit_of(&answer)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_holds_over_two_producers_together() {
    const RATE: u64 = 20;
    let two = Two::start(&format!("submits_per_second = {RATE}"), "").await;
    let (began, mut accepted) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(2) {
        let answer = two.submit(accepted, &two.noisy, &format!("r-{accepted}")).await;
        match answer.status {
            202 => accepted += 1,
            _ => assert_eq!(limit_of(&answer), "submits_per_second"),
        }
    }
    // A second's worth at once, and what the time since brought.
    let most = RATE as f64 * (1.0 + began.elapsed().as_secs_f64());
    assert!(accepted as f64 <= most + 1.0, "{accepted} were accepted, {most} at most");
    assert!(accepted as u64 > RATE, "{accepted} were accepted: nothing but what there was at once");
    assert_eq!(two.submit(0, &two.quiet, "quiet").await.status, 202);
}
