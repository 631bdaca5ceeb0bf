//! K75: a client does not notice that its connection is gone, or does not come back.
//!
//! It says that it is connected, or some of its connections never return, until somebody restarts the process.
//! (Twenty restarts are in `it::redis_away`; a server that hangs for long is in K77.)

use std::fs;
use std::time::{Duration, Instant};

use holdfast_testkit::{RedisServer, eventually};

use crate::callers::Callers;
use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, count, full, pass, time};
use crate::{aftermath, stage};

/// So soon after Redis is back everything works. A short run has other tests beside it.
fn back() -> Duration {
    Duration::from_secs(if full() { 5 } else { 15 })
}

/// Every kind of connection has work: a producer, workers that listen for cancels, a reclaimer.
struct Pool {
    fleet: Fleet,
    roles: Vec<Role>,
}

impl Pool {
    async fn start() -> Self {
        Self::over(stage::fleet(Setup::default()).await).await
    }

    async fn over(fleet: Fleet) -> Self {
        let mut roles = vec![fleet.reclaimer()];
        roles.extend((0..2).map(|_| fleet.worker()));
        for role in &roles {
            fleet.ready(role.ops).await;
        }
        Self { fleet, roles }
    }

    /// Every way from a caller to the end of a request works again: submit, claim, settle, the wait for a result, a cancel
    /// that reaches a running call.
    async fn works(&self, round: &str, since: Instant) {
        let (fleet, left) = (&self.fleet, || back().saturating_sub(since.elapsed()));
        let id = format!("k75-{round}");
        eventually("a submit is taken", left(), async || {
            let payload = stage::payload(&id);
            let item = format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{payload}}}");
            match fleet.post(&item).await.status {
                200 | 202 => Ok(()),
                other => Err(other.to_string()),
            }
        })
        .await;
        assert_eq!(fleet.result_within(&id, left()).await.0, "answered");
        for role in &self.roles {
            eventually("the role is ready", left(), async || {
                match stage::probe(fleet, role.ops, "readyz").await {
                    (200, ..) => Ok(()),
                    (_, reasons, _) => Err(reasons),
                }
            })
            .await;
        }
        eprintln!("{round}: back after {:?}", since.elapsed());
    }
}

/// Restarts at random moments, and one that follows so soon that connections are half made.
#[tokio::test(flavor = "multi_thread")]
async fn after_restarts_of_any_length_every_connection_is_back_within_5_seconds() {
    let _shared = beside_others().await;
    let pool = Pool::start().await;
    let callers = Callers::start(&pool.fleet, &["q"], Duration::from_millis(20));
    for round in 0..count(20, 3) {
        pool.fleet.redis.kill().await;
        // From 0.1 s to as long as a wait for a reconnect ever is, and twice in a row.
        pass(time(0.4 * f64::from(1 << (round % 6)))).await;
        pool.fleet.redis.restart().await;
        if round % 3 == 1 {
            pool.fleet.redis.kill().await;
            pool.fleet.redis.restart().await;
        }
        pool.works(&format!("restart-{round}"), Instant::now()).await;
    }
    let accepted = callers.stop().await;
    for it in &accepted {
        assert_eq!(pool.fleet.result(&it.id).await.0, "answered", "{}", it.id);
    }
    for role in &pool.roles {
        let lost = pool.fleet.metric(role, "holdfast_redis_reconnects_total", "").await;
        assert!(lost >= 1.0, "nothing tells of the gap");
    }
    aftermath::nobody_panicked(&pool.fleet, &pool.roles.iter().collect::<Vec<_>>());
}

/// Every connection is killed five times a second for ten seconds, while callers go on.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_killed_all_the_time_come_back_all_the_time() {
    let _shared = beside_others().await;
    let pool = Pool::start().await;
    let callers = Callers::start(&pool.fleet, &["q"], Duration::from_millis(20));
    let (begun, mut kills) = (Instant::now(), 0);
    while begun.elapsed() < time(10.0) {
        for kind in ["normal", "pubsub"] {
            let words = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
            kills += pool.fleet.redis.command(&words).await.int().expect("a count");
        }
        pass(Duration::from_millis(200)).await;
    }
    assert!(kills > 20, "only {kills} connections were killed");
    pool.works("killed", Instant::now()).await;
    let accepted = callers.stop().await;
    assert!(accepted.len() > 5, "only {} were accepted meanwhile", accepted.len());
    for it in &accepted {
        assert_eq!(pool.fleet.result(&it.id).await.0, "answered", "{}", it.id);
    }
    aftermath::nobody_panicked(&pool.fleet, &pool.roles.iter().collect::<Vec<_>>());
}

/// The server hangs for forty seconds: those who ask meanwhile are answered, and nobody waits for the hang to be noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_missed_and_found_again() {
    let _shared = beside_others().await;
    let pool = Pool::start().await;
    pool.works("before", Instant::now()).await;
    pool.fleet.redis.pause();
    let frozen = Instant::now();
    for role in &pool.roles {
        eventually("its readiness shows the gap", SOON, async || {
            match stage::probe(&pool.fleet, role.ops, "readyz").await {
                (503, ..) => Ok(()),
                (status, ..) => Err(status),
            }
        })
        .await;
    }
    pass(time(40.0).saturating_sub(frozen.elapsed())).await;
    pool.fleet.redis.resume();
    pool.works("woken", Instant::now()).await;
    aftermath::nobody_panicked(&pool.fleet, &pool.roles.iter().collect::<Vec<_>>());
}

/// The file with the password is not there at the moment of a reconnect, as while it is being replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_file_that_is_missing_for_a_moment_keeps_nobody_away_for_good() {
    let _shared = beside_others().await;
    let (redis, folder) = (RedisServer::start().await, tempfile::tempdir().expect("a folder"));
    let file = folder.path().join("password");
    fs::write(&file, "pw").expect("a file");
    let words = ["ACL", "SETUSER", "role", "on", ">pw", "~*", "&*", "+@all"];
    assert_eq!(redis.command(&words).await.text(), Some("OK"));
    let lines = format!("username = \"role\"\npassword_file = \"{}\"", file.display());
    let pool =
        Pool::over(Fleet::with(Setup { redis: lines, ..Setup::default() }, redis).await).await;
    pool.works("with", Instant::now()).await;

    fs::remove_file(&file).expect("the file was there");
    for kind in ["normal", "pubsub"] {
        let words = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
        pool.fleet.redis.command(&words).await;
    }
    for role in &pool.roles {
        eventually("its readiness shows the gap", SOON, async || {
            match stage::probe(&pool.fleet, role.ops, "readyz").await {
                (503, ..) => Ok(()),
                (status, ..) => Err(status),
            }
        })
        .await;
    }
    fs::write(&file, "pw").expect("a file");
    pool.works("again", Instant::now()).await;
}
