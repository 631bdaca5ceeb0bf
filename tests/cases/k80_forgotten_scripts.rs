//! K80: Redis forgets the scripts.
//!
//! After a flush, a restart or a failover every call by hash fails until the application is restarted, and a PING stays
//! green all the while.

use std::time::Instant;

use holdfast_testkit::Value;

use crate::fleet::{SOON, Setup};
use crate::pace::{beside_others, time};
use crate::{aftermath, stage};

/// Flushed ten times a second under load: no error is seen, nothing is lost, nothing runs twice.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_are_forgotten_again_and_again_cost_nothing() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    for role in [&worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    let (mut ids, begun, mut flushes) = (Vec::new(), Instant::now(), 0);
    while begun.elapsed() < time(20.0) {
        let flushed = fleet.redis.command(&["SCRIPT", "FLUSH", "SYNC"]).await;
        assert!(matches!(flushed, Value::Simple(_)), "{flushed:?}");
        flushes += 1;
        let (next, some) = (Instant::now() + std::time::Duration::from_millis(100), ids.len());
        while Instant::now() < next && ids.len() < some + 10 {
            let id = format!("k80-{}", ids.len());
            fleet.submit(&id, &stage::payload(&id)).await;
            ids.push(id);
        }
        tokio::time::sleep_until(next.into()).await;
    }
    assert!(flushes > 10 && ids.len() > 20, "{flushes} flushes, {} submits", ids.len());
    let outcomes = aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
    assert!(outcomes.iter().all(|outcome| outcome == "answered"), "{outcomes:?}");
    assert_eq!(fleet.gateway.counts().arrived, ids.len() as u64, "a request ran twice");
    for role in [&worker, &reclaimer] {
        let output = role.process.output();
        let error =
            output.lines().find(|line| line.contains("\"ERROR\"") || line.contains("NOSCRIPT"));
        assert_eq!(error, None);
    }
}

/// Forgotten while the roles are idle: the next call of each is as good as any.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_system_does_not_notice() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    let ids = stage::ids("k80", 3);
    for id in &ids {
        fleet.redis.command(&["SCRIPT", "FLUSH", "SYNC"]).await;
        fleet.submit(id, &stage::payload(id)).await;
        assert_eq!(fleet.result_within(id, SOON).await.0, "answered");
    }
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
}
