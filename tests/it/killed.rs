//! Workers are killed for real; every request still ends, once.

use std::time::{Duration, Instant};

use holdfast_testkit::{RedisServer, eventually};

use crate::fleet::{Fleet, LEASE, Role, SOON, Setup};

/// A killed worker's requests run again within a lease, a pass and what starting a call takes.
const TAKEOVER: Duration = Duration::from_secs(5);

async fn submit_all(fleet: &Fleet, count: usize) -> Vec<String> {
    let ids: Vec<String> = (1..=count).map(|number| format!("k01-{number}")).collect();
    for id in &ids {
        fleet
            .submit(id, &format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"<{id}>\"}}]}}"))
            .await;
    }
    ids
}

/// Every id ends as answered, exactly one record each, and nothing is left behind.
async fn all_answered(fleet: &Fleet, ids: &[String], limit: Duration) {
    for id in ids {
        let (outcome, _) = fleet.result_within(id, limit).await;
        assert_eq!(outcome, "answered", "{id}");
    }
    for home in ["pending", "suspects", "delayed", "leased", "dead", "request"] {
        assert_eq!(fleet.count(home).await, 0, "{home}");
    }
    assert_eq!(fleet.count("finished").await, ids.len() as i64);
    assert_eq!(fleet.count("result").await, ids.len() as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_workers_64_requests_run_again_and_end_once() {
    let fleet = Fleet::start().await;
    let _reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker();
    let ids = submit_all(&fleet, 64).await;
    fleet.gateway.wait_for_arrivals(64, SOON).await.expect("64 in flight");
    let heir = fleet.worker();
    fleet.ready(heir.ops).await;

    let killed = Instant::now();
    doomed.process.kill();
    fleet.gateway.wait_for_arrivals(128, LEASE + TAKEOVER).await.expect("all 64 run again");
    assert!(killed.elapsed() >= LEASE / 2, "a lease was taken away while it ran");
    fleet.gateway.hold(false);
    all_answered(&fleet, &ids, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_both_workers_are_killed_a_later_one_finishes_their_work() {
    let fleet = Fleet::start().await;
    let _reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let mut doomed = [fleet.worker(), fleet.worker()];
    let ids = submit_all(&fleet, 100).await;
    fleet.gateway.wait_for_arrivals(100, SOON).await.expect("all in flight");
    for worker in &mut doomed {
        worker.process.kill();
    }
    fleet.gateway.hold(false);

    let _heir = fleet.worker();
    all_answered(&fleet, &ids, SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_as_soon_as_it_has_claimed_loses_nothing() {
    let fleet = Fleet::start().await;
    let _reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker();
    fleet.ready(doomed.ops).await;
    let ids = submit_all(&fleet, 16).await;
    eventually("something is leased", SOON, async || match fleet.count("leased").await {
        0 => Err("nothing is leased"),
        _ => Ok(()),
    })
    .await;
    doomed.process.kill();
    fleet.gateway.hold(false);

    let _heir = fleet.worker();
    all_answered(&fleet, &ids, SOON).await;
}

/// Kills a worker as soon as the killer request reaches the gateway from it.
async fn die_by_the_killer(fleet: &Fleet, worker: &mut Role, arrivals: usize) {
    eventually("the killer reaches the gateway", SOON, async || {
        if fleet.arrivals_of("<killer>").len() > arrivals { Ok(()) } else { Err("not yet") }
    })
    .await;
    worker.process.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_kills_every_worker_dies_at_its_fifth_lapse_and_takes_no_other_along() {
    // So long that no lease lapses where the machine pauses: only deaths are to be charged.
    let worker = "concurrency = 64\nlease = \"3s\"\nrenew = \"500ms\"\ndrain = \"5s\"".to_owned();
    let setup = Setup { worker, ..Setup::default() };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let _reclaimer = fleet.reclaimer();
    // All of one deadline, claimed together.
    let deadline = deadline_in(600);
    let item = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"deadline\":{deadline},\"payload\":{{\"content\":\"<{id}>\"}}}}"
        )
    };
    fleet.post(&item("killer")).await;
    let innocents: Vec<String> = (1..=63).map(|number| format!("innocent-{number}")).collect();
    for id in &innocents {
        assert_eq!(fleet.post(&item(id)).await.status, 202);
    }
    fleet.gateway.hold(true);
    for lapse in 0..5 {
        let mut worker = fleet.worker();
        die_by_the_killer(&fleet, &mut worker, lapse).await;
    }
    fleet.gateway.hold(false);
    let _heir = fleet.worker();

    let (outcome, record) = fleet.result("killer").await;
    assert_eq!(outcome, "killed-workers", "{}", record.text());
    assert_eq!(fleet.status("killer").await["lapses"], 5);
    for id in &innocents {
        assert_eq!(fleet.result(id).await.0, "answered", "{id}");
        let lapses = fleet.status(id).await["lapses"].as_u64();
        assert!(lapses.is_some_and(|lapses| lapses <= 3), "{id}: {lapses:?} lapses");
    }
    assert_eq!(fleet.count("dead").await, 1);
}

fn deadline_in(seconds: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a deadline is no lease")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock after 1970").as_secs() + seconds
}
