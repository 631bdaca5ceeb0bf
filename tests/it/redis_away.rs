//! Redis dies, hangs, comes back: nothing is lost, nobody is blamed, every loop goes on.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_testkit::{AppendFsync, RedisServer, eventually};

use crate::fleet::{Fleet, SOON, Setup};

/// Every loop works again so soon after Redis is back.
const BACK: Duration = Duration::from_secs(5);

async fn strict_redis() -> RedisServer {
    RedisServer::with(|options| options.appendfsync = AppendFsync::Always).await
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_under_load_loses_no_accepted_request() {
    let fleet = Fleet::with(Setup::default(), strict_redis().await).await;
    let _reclaimer = fleet.reclaimer();
    let _workers = [fleet.worker(), fleet.worker()];
    let mut accepted = BTreeSet::new();
    for kill in 0..3 {
        for number in 0..60 {
            if number == 30 {
                fleet.redis.kill().await;
                fleet.redis.restart().await;
            }
            let id = format!("load-{kill}-{number}");
            let item = format!(
                "{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{{\"content\":\"x\"}}}}"
            );
            let status = fleet.post(&item).await.status;
            // Refused or unknown are honest answers; what was accepted must end.
            assert!(matches!(status, 202 | 503), "{id}: {status}");
            if status == 202 {
                accepted.insert(id);
            }
        }
    }
    assert!(accepted.len() > 90, "only {} were accepted", accepted.len());
    for id in &accepted {
        assert_eq!(fleet.result(id).await.0, "answered", "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_outage_of_redis_kills_no_request() {
    let fleet = Fleet::with(Setup::default(), strict_redis().await).await;
    let _reclaimers = [fleet.reclaimer(), fleet.reclaimer()];
    let _workers = [fleet.worker(), fleet.worker()];
    fleet.gateway.hold(true);
    for number in 0..100 {
        fleet.submit(&format!("r{number}"), "{\"content\":\"x\"}").await;
    }
    fleet.gateway.wait_for_arrivals(100, SOON).await.expect("all in flight");
    // Three leases long, twice. A third would make suspects of all: from then on they run one by one.
    for outage in 0..2 {
        let arrived = fleet.gateway.counts().arrived;
        fleet.redis.pause();
        let asleep = Instant::now();
        eventually("the outage lasts", SOON, async || {
            if asleep.elapsed() >= Duration::from_secs(9) { Ok(()) } else { Err("not yet") }
        })
        .await;
        fleet.redis.resume();
        let again = fleet.gateway.wait_for_arrivals(arrived + 100, SOON).await;
        again.unwrap_or_else(|late| panic!("after outage {outage}: {late}"));
    }
    fleet.gateway.hold(false);
    for number in 0..100 {
        let id = format!("r{number}");
        assert_eq!(fleet.result(&id).await.0, "answered", "{id}");
        assert_eq!(fleet.status(&id).await["lapses"], 0, "{id} was charged for the outage");
    }
    assert_eq!(fleet.count("dead").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_of_20_restarts_every_loop_works_again_within_5_seconds() {
    let fleet = Fleet::with(Setup::default(), strict_redis().await).await;
    let reclaimer = fleet.reclaimer();
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    fleet.ready(reclaimer.ops).await;
    for restart in 0..20 {
        fleet.redis.kill().await;
        // Down for a while that differs each time.
        let down = Duration::from_millis(50 + 150 * (restart % 7));
        let since = Instant::now();
        eventually(
            "it stays down",
            SOON,
            async || if since.elapsed() >= down { Ok(()) } else { Err("") },
        )
        .await;
        fleet.redis.restart().await;

        let back = Instant::now();
        let id = format!("restart-{restart}");
        // Submit, claim by bell or poll, settle, wake the waiting caller; and a lease that only reclaim ends.
        eventually("a submit is taken", BACK, async || {
            let item = format!(
                "{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{{\"content\":\"x\"}}}}"
            );
            match fleet.post(&item).await.status {
                200 | 202 => Ok(()),
                status => Err(status.to_string()),
            }
        })
        .await;
        assert_eq!(fleet.result_within(&id, BACK).await.0, "answered");
        assert!(back.elapsed() < BACK, "restart {restart}: {:?}", back.elapsed());
        for (role, name) in [(&reclaimer, "reclaim"), (&reclaimer, "sweep"), (&reclaimer, "expire")]
        {
            let label = format!("loop=\"{name}\"");
            let before = fleet.metric(role, "holdfast_loop_last_success_seconds", &label).await;
            eventually(&format!("{name} goes on"), BACK, async || {
                let now = fleet.metric(role, "holdfast_loop_last_success_seconds", &label).await;
                if now > before { Ok(()) } else { Err(format!("last success at {now}")) }
            })
            .await;
        }
        fleet.ready(worker.ops).await;
    }
}

/// What a probe of a role's readiness says of Redis; none: it is ready.
async fn reason(fleet: &Fleet, ops: u16) -> Option<String> {
    let url = format!("http://127.0.0.1:{ops}/readyz");
    let answer = fleet.http.request("GET", &url, &[], "").await;
    let told: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    told["reasons"]["redis"].as_str().map(str::to_owned)
}

/// A submit at a level asks Redis what it can give before it is stored, so it finds other troubles first than a plain one.
#[tokio::test(flavor = "multi_thread")]
async fn submits_at_a_level_tell_the_readiness_and_their_callers_what_plain_ones_do() {
    for durability in ["acknowledged", "fsynced", "replicated"] {
        let redis = RedisServer::recent(|_| {}).await;
        redis.command(&["ACL", "SETUSER", "api", "on", ">pw", "~*", "&*", "+@all"]).await;
        let setup = Setup {
            redis_url: Some(format!("redis://api:pw@127.0.0.1:{}", redis.port())),
            queue: format!("durability = \"{durability}\""),
            ..Setup::default()
        };
        let fleet = Fleet::without_producer(setup, redis).await;
        let producer = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
        fleet.ready(producer.ops).await;
        let refused = async |problem: &str, known: &str| {
            let answer = fleet.post("{\"timeout\":\"10m\",\"payload\":1}").await;
            assert_eq!(answer.status, 503, "{durability}: {}", answer.text());
            assert!(answer.text().contains(problem), "{durability}: {}", answer.text());
            let told = reason(&fleet, producer.ops).await.unwrap_or_default();
            assert!(told.starts_with(known), "{durability}: the first probe says {told:?}");
        };
        fleet.redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
        refused("store-read-only", "read-only").await;
        fleet.redis.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
        fleet.ready(producer.ops).await;

        let granted = async |rights: &str| {
            fleet.redis.command(&["ACL", "SETUSER", "api", rights]).await;
            // What another script was denied counts for 20 s, from the last time that it was.
            eventually("a submit finds the right, and a probe that", SOON * 3, async || {
                fleet.post("{\"timeout\":\"10m\",\"payload\":1}").await;
                reason(&fleet, producer.ops).await.map_or(Ok(()), Err)
            })
            .await;
        };
        fleet.redis.command(&["ACL", "SETUSER", "api", "-@all"]).await;
        refused("store-denied", "denied").await;
        granted("+@all").await;
        if durability != "acknowledged" {
            fleet.redis.command(&["ACL", "SETUSER", "api", "-info"]).await;
            refused("durability-unavailable", "denied: info").await;
            granted("+info").await;
        }

        fleet.redis.pause();
        refused("/problems/", "unreachable").await;
        fleet.redis.resume();
    }
}
