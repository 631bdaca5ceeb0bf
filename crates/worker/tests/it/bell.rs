//! A claim that waits behind the bell, on a worker with one shard.

use std::time::{Duration, Instant};

use holdfast_core::model::{Home, Outcome};
use holdfast_core::script;
use holdfast_testkit::proxy::{Injected, command, evalsha};
use holdfast_testkit::{Fault, Proxy, When, eventually};

use crate::support::{SOON, Stage};

/// How long what waited already may take, also on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

fn claim() -> impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static {
    let claim = script::all().into_iter().find(|it| it.name == "claim").unwrap();
    move |words| evalsha(&claim.sha1)(words)
}

/// Waits until a worker has just begun to wait at the bell: it will for a second at least.
async fn at_bell(stage: &Stage, bells: &Injected) {
    bells.wait_matched(bells.matched() + 1, SOON).await;
    waits(stage).await;
}

/// Waits until somebody waits at the bell.
async fn waits(stage: &Stage) {
    eventually("it waits at the bell", SOON, async || {
        let info = stage.redis.command(&["INFO", "clients"]).await;
        let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
        if info.contains("blocked_clients:1\r") { Ok(()) } else { Err(info) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_finds_a_claim_waiting_for_it() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    let mut found = false;
    // A wait that ends by itself between two lines of this test leaves none behind: hence three tries.
    for (tried, id) in (1..).zip(["a", "b", "c"]) {
        at_bell(&stage, &proxy.count(command("BLPOP"))).await;
        // No claim that is sent from now on arrives.
        proxy.inject(Fault::HoldRequest, When::Each, claim());
        let spot = stage.submit(id, "{}").await;
        found = stage.gateway.wait_for_arrivals(tried, AT_ONCE).await.is_ok();
        proxy.clear();
        let record = stage.record(&spot).await;
        assert_eq!((record.outcome, record.attempts, record.lapses), (Outcome::Answered, 1, 0));
        if found {
            break;
        }
    }
    assert!(found, "no claim waited for any of them");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_stopped_while_a_submit_arrives_leaves_nothing_leased() {
    let stage = Stage::set().await;
    let mut left = 0;
    for round in 0..24_u64 {
        let worker = stage.worker("lease = \"60s\"\nrenew = \"20s\"", "").await;
        waits(&stage).await;
        let submit = async {
            tokio::time::sleep(Duration::from_micros(100 * (round % 12))).await;
            stage.submit(&format!("a{round}"), "{}").await
        };
        let stop = async {
            tokio::time::sleep(Duration::from_micros(500)).await;
            worker.stop().await
        };
        let (spot, stopped) = tokio::join!(submit, stop);
        stopped.unwrap();
        let found = stage.find(&spot).await;
        match found.home {
            Some(Home::Finished) => {}
            Some(Home::Pending) => {
                left += 1;
                assert_eq!(found.ticket.attempts, 0, "not sent, not charged");
                stage.cancel(&spot).await;
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
    assert!(left > 0, "no submit was later than the stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_waited_leases_nothing_once_its_worker_has_stopped() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    let bells = proxy.count(command("BLPOP"));
    at_bell(&stage, &bells).await;
    // The next that waits does so on its way.
    let held = proxy.inject(Fault::HoldRequest, When::First(1), claim());
    at_bell(&stage, &bells).await;
    held.wait_fired(1, SOON).await;
    worker.stop().await.unwrap();

    let spot = stage.submit("a", "{}").await;
    assert_eq!(proxy.release_held().await.len(), 1);
    let found = stage.find(&spot).await;
    assert_eq!((found.home, found.ticket.attempts), (Some(Home::Pending), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_connection_is_lost_at_the_bell_is_handed_out_again() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "lease = \"60s\"\nrenew = \"20s\"", "").await;
    let bells = proxy.count(command("BLPOP"));
    at_bell(&stage, &bells).await;
    // The bell's answer does not come, and with it neither does the claim's.
    let lost = proxy.inject(Fault::LoseReply, When::First(1), command("BLPOP"));
    at_bell(&stage, &bells).await;
    let spot = stage.submit("a", "{}").await;
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts, record.lapses), (Outcome::Answered, 1, 0));
    assert_eq!((lost.fired(), stage.gateway.counts().arrived), (1, 1));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bell_that_does_not_answer_costs_little_more_than_a_safety_poll() {
    for fault in [Fault::Refuse("ERR not now".to_owned()), Fault::Swallow] {
        let stage = Stage::set().await;
        let proxy = Proxy::start(stage.redis.port()).await;
        proxy.inject(fault, When::Each, command("BLPOP"));
        let worker = stage.worker_by(&proxy.url(), "", "").await;
        let claims = proxy.count(claim());
        let started = Instant::now();
        let mut took = Vec::new();
        for number in 0..5 {
            let submitted = Instant::now();
            let spot = stage.submit(&format!("a{number}"), "{}").await;
            stage.record(&spot).await;
            took.push(submitted.elapsed());
        }
        // A pause of the machine may meet two of them. A bell that is waited for makes all of them late, and one by ten seconds.
        took.sort();
        assert!(took[2] < Duration::from_secs(4) && took[4] < Duration::from_secs(8), "{took:?}");
        let rate = claims.matched() as f64 / started.elapsed().as_secs_f64().max(1.0);
        assert!(rate < 10.0, "{rate} claims a second");
        worker.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspect_does_not_wait_for_a_claim_that_waits_at_the_bell() {
    let stage = Stage::set().await;
    stage.worker("", "").await.stop().await.unwrap();
    let mut spots = Vec::new();
    for at in 0..8 {
        let spot = stage.submit(&format!("s{at}"), "{}").await;
        stage.make_suspect(&spot).await;
        spots.push(spot);
    }
    let worker = stage.worker("", "").await;
    stage.arrivals(1).await;
    let started = Instant::now();
    for spot in &spots {
        assert_eq!(stage.record(spot).await.outcome, Outcome::Answered);
    }
    // One at a time, and a claim waits a second at least: seven of them would have been waited for.
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    worker.stop().await.unwrap();
}
