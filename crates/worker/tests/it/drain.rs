//! How a worker ends.

use std::time::{Duration, Instant};

use holdfast_core::model::{Home, Outcome};
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Fault, Proxy, When, proxy};

use crate::support::{LATER, SHORT_LEASE, SOON, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_stops_within_a_second() {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    // Each has just begun to wait at the bell, which it does for a second at least: an end that waits for that is never quick.
    // A machine that is busy makes one of them slow.
    for id in ["a", "b", "c"] {
        let worker = stage.worker("", "").await;
        let spot = stage.submit(id, "{}").await;
        stage.record(&spot).await;
        let started = Instant::now();
        worker.stop().await.unwrap();
        took.push(started.elapsed());
    }
    assert!(took.iter().min().unwrap() < &Duration::from_secs(1), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_within_the_drain_is_settled_and_nothing_new_is_claimed() {
    let stage = Stage::set().await;
    stage.gateway.script(vec![Rule::new().delay(Duration::from_secs(3))]).unwrap();
    // The drain is longer than the lease: renewing goes on meanwhile.
    let worker = stage.worker(&format!("concurrency = 4\n{SHORT_LEASE}"), "").await;
    let mut running = Vec::new();
    for at in 0..4 {
        running.push(stage.submit(&format!("a{at}"), "{}").await);
    }
    stage.arrivals(4).await;
    worker.begin_stop();
    let waiting = stage.submit("late", "{}").await;
    worker.stop().await.unwrap();
    for spot in &running {
        let record = stage.record(spot).await;
        assert_eq!((record.outcome, record.attempts, record.lapses), (Outcome::Answered, 1, 0));
    }
    assert_eq!(stage.find(&waiting).await.home, Some(Home::Pending));
    assert_eq!(stage.gateway.counts().arrived, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_end_within_the_drain_is_handed_back_at_once() {
    let stage = Stage::set().await;
    stage.gateway.script(vec![Rule::new().delay(LATER)]).unwrap();
    let worker = stage.worker("drain = \"300ms\"\nlease = \"60s\"\nrenew = \"20s\"", "").await;
    let spot = stage.submit("a", "{}").await;
    stage.arrivals(1).await;
    let started = Instant::now();
    worker.stop().await.unwrap();
    // Its lease and its call last for minutes.
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let found = stage.find(&spot).await;
    assert_eq!(found.home, Some(Home::Pending), "nobody has to wait for the lease");
    assert_eq!((found.ticket.attempts, found.ticket.lapses), (1, 0), "what was sent is charged");
    stage.gateway.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_late_claim_brings_is_handed_back_undispatched() {
    let stage = Stage::set().await;
    // Declares the queue, and is gone before there is something to claim.
    stage.worker("", "").await.stop().await.unwrap();
    let spot = stage.submit("a", "{}").await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let claim = holdfast_core::script::all().into_iter().find(|it| it.name == "claim").unwrap();
    let slow = Fault::DelayReply(Duration::from_secs(1));
    let late = proxy.inject(slow, When::Each, proxy::evalsha(&claim.sha1));
    let worker = stage.worker_by(&proxy.url(), "lease = \"60s\"\nrenew = \"20s\"", "").await;
    stage.at_home(&spot, Home::Leased).await;
    worker.begin_stop();
    worker.stop().await.unwrap();
    assert!(late.fired() >= 1);
    let found = stage.find(&spot).await;
    assert_eq!(
        (found.home, found.ticket.attempts),
        (Some(Home::Pending), 0),
        "not sent, not charged"
    );
    assert_eq!(stage.gateway.counts().arrived, 0);
}
