//! What a worker does with a lease, and without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_core::model::{Home, Outcome};
use holdfast_core::script::all;
use holdfast_testkit::proxy::{Injected, command, evalsha};
use holdfast_testkit::{Fault, Proxy, When, eventually};

use crate::support::{SHORT_LEASE, SOON, Stage};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_longer_than_the_lease_is_renewed_all_the_time() {
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    // So long that a pause of the machine is no missed renewal.
    let worker = stage.worker("lease = \"3s\"\nrenew = \"500ms\"", "").await;
    let spot = stage.submit("a", "{}").await;
    stage.arrivals(1).await;
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_secs(7) {
        let found = stage.find(&spot).await;
        assert_eq!(found.home, Some(Home::Leased));
        assert!(found.score > found.now, "never past its end");
        assert!(stage.reclaim(&spot.shard).await.is_empty());
    }
    stage.gateway.hold(false);
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts, record.lapses), (Outcome::Answered, 1, 0));
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_somebody_else_took_is_given_up_and_publishes_nothing() {
    let exported = holdfast_core::metrics::install().unwrap();
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    let worker = stage.worker(SHORT_LEASE, "").await;
    let spot = stage.submit("a", "{}").await;
    stage.arrivals(1).await;
    // As if it had lapsed and another had claimed it since.
    let leased = spot.shard.leased.as_bytes();
    let member = stage.redis.command(&[b"ZRANGE", leased, b"0", b"0"]).await;
    let member = member.array().unwrap()[0].bytes().unwrap().to_vec();
    let other = [b"ffffffffffffffff0000000000000001", &member[32..]].concat();
    stage.redis.command(&[b"ZREM", leased, &member]).await;
    stage.redis.command(&[b"ZADD", leased, b"9999999999999", &other]).await;

    stage.gateway.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
    stage.gateway.hold(false);
    worker.stop().await.unwrap();
    let members = stage.redis.command(&[b"ZRANGE", leased, b"0", b"-1"]).await;
    assert_eq!(members.array().unwrap()[0].bytes().unwrap(), &other[..], "the other still has it");
    let results = stage.redis.command(&["HLEN", &spot.shard.result]).await;
    assert_eq!(results.int(), Some(0));
    let told = exported.render();
    assert!(told.contains(r#"holdfast_settles_total{queue="q",outcome="fenced"}"#), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_whose_message_is_lost_is_told_by_a_renewal() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    proxy.inject(Fault::Refuse("ERR no".to_owned()), When::Each, command("SSUBSCRIBE"));
    stage.gateway.hold(true);
    let worker = stage.worker_by(&proxy.url(), SHORT_LEASE, "").await;
    let spot = stage.submit("a", "{}").await;
    stage.arrivals(1).await;
    stage.cancel(&spot).await;
    stage.gateway.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
    assert_eq!(stage.record(&spot).await.outcome, Outcome::Cancelled);
    stage.gateway.hold(false);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_was_pushed_while_nobody_listened_is_told_once_the_worker_listens_again() {
    let stage = Stage::with_shards(3).await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let deaf = Arc::new(AtomicBool::new(false));
    let (is_deaf, subscribes) = (Arc::clone(&deaf), command("SSUBSCRIBE"));
    let refused =
        proxy.inject(Fault::Refuse("ERR no".to_owned()), When::Each, move |words: &[Vec<u8>]| {
            is_deaf.load(Ordering::SeqCst) && subscribes(words)
        });
    stage.gateway.hold(true);
    // No wait here lasts until a renewal that comes in its turn.
    let worker = stage.worker_by(&proxy.url(), "lease = \"4m\"\nrenew = \"2m\"", "").await;
    listeners(&stage, 1).await;
    let spots = stage.one_a_shard().await;
    stage.arrivals(3).await;

    deaf.store(true, Ordering::SeqCst);
    stage.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    refused.wait_fired(1, SOON).await;
    listeners(&stage, 0).await;
    stage.cancel(&spots[0]).await;
    let renewals = renewals(&stage, &proxy).await;
    assert_eq!(stage.gateway.counts().gone, 0, "nobody can have told it");
    deaf.store(false, Ordering::SeqCst);
    stage.gateway.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
    assert_eq!(stage.record(&spots[0]).await.outcome, Outcome::Cancelled);

    // It listens everywhere again, and each shard was renewed for that once.
    listeners(&stage, 1).await;
    stage.gateway.hold(false);
    for spot in &spots[1..] {
        assert_eq!(stage.record(spot).await.outcome, Outcome::Answered);
    }
    worker.stop().await.unwrap();
    assert_eq!(renewals.matched(), 3);
}

/// Waits until so many listen to the cancels of each shard.
async fn listeners(stage: &Stage, count: i64) {
    for shard in 0..stage.shards.get() {
        let channel = stage.shard(shard).cancel;
        eventually("the listeners are as many as expected", SOON, async || {
            let told = stage.redis.command(&["PUBSUB", "SHARDNUMSUB", &channel]).await;
            let listening = told.array().and_then(|told| told.get(1)?.int());
            if listening == Some(count) { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
    }
}

/// Counts the calls that renew leases. The first would be made twice if Redis did not know the script.
async fn renewals(stage: &Stage, proxy: &Proxy) -> Injected {
    let renew = all().into_iter().find(|it| it.name == "renew").unwrap();
    stage.redis.command(&["SCRIPT", "LOAD", &renew.text]).await;
    proxy.count(evalsha(&renew.sha1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_silence_of_redis_costs_no_lease() {
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    let worker = stage.worker("lease = \"6s\"\nrenew = \"1s\"", "").await;
    let mut spots = Vec::new();
    for at in 0..10 {
        spots.push(stage.submit(&format!("a{at}"), "{}").await);
    }
    stage.arrivals(10).await;
    stage.redis.command(&["CLIENT", "PAUSE", "2500", "ALL"]).await;
    stage.gateway.hold(false);
    for spot in &spots {
        let record = stage.record(spot).await;
        assert_eq!((record.outcome, record.attempts, record.lapses), (Outcome::Answered, 1, 0));
    }
    assert_eq!(stage.gateway.counts().arrived, 10, "each was called once");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_cut_off_for_longer_than_its_lease_aborts_its_calls_by_its_own_clock() {
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    let worker = stage.worker(SHORT_LEASE, "").await;
    let spot = stage.submit("a", "{}").await;
    stage.arrivals(1).await;
    stage.redis.pause();
    // Nobody can tell it: the lease is over when its own clock says so.
    stage.gateway.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
    stage.redis.resume();
    stage.gateway.hold(false);

    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 2));
    assert_eq!(stage.gateway.counts().given, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_before_its_redis_claims_once_it_is_there() {
    let stage = Stage::set().await;
    stage.redis.stop().await;
    let worker = crate::support::Worker::start(&stage, stage.redis.url(), "", "");
    stage.redis.restart().await;
    eventually("the queue is declared", SOON, async || {
        let capacity = stage.redis.command(&["HGET", &stage.shard(0).meta, "capacity"]).await;
        capacity.bytes().map(drop).ok_or("no policy")
    })
    .await;
    let spot = stage.submit("a", "{}").await;
    assert_eq!(stage.record(&spot).await.outcome, Outcome::Answered);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_another_number_of_shards_does_not_serve() {
    let stage = Stage::with_shards(2).await;
    stage.worker("", "").await.stop().await.unwrap();
    let other = Stage { shards: 3.try_into().unwrap(), ..stage };
    let refused = crate::support::Worker::start(&other, other.redis.url(), "", "").ended().await;
    assert!(refused.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_all_the_time_cost_no_answer() {
    let stage = Stage::set().await;
    stage.gateway.hold(true);
    let worker = stage.worker("", "").await;
    let mut spots = Vec::new();
    for at in 0..300 {
        spots.push(stage.submit(&format!("a{at}"), "{}").await);
    }
    stage.arrivals(64).await;
    stage.gateway.hold(false);
    let result = &spots[0].shard.result;
    eventually("all have ended", 3 * SOON, async || {
        stage.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        let ended = stage.redis.command(&["HLEN", result]).await.int();
        if ended == Some(300) { Ok(()) } else { Err(format!("{ended:?}")) }
    })
    .await;
    for spot in &spots {
        assert_eq!(stage.record(spot).await.outcome, Outcome::Answered);
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_never_arrives_is_given_up_with_its_lease() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let settle = all().into_iter().find(|it| it.name == "settle").unwrap().sha1;
    let lost = proxy.inject(Fault::HoldRequest, When::Each, evalsha(&settle));
    let worker = stage.worker_by(&proxy.url(), SHORT_LEASE, "").await;
    let spot = stage.submit_for("a", "{}", Duration::from_secs(3)).await;
    lost.wait_fired(1, SOON).await;
    // It is renewed up to its deadline and one lease, and then taken back.
    eventually("it has ended", SOON, async || {
        stage.reclaim(&spot.shard).await;
        let found = stage.find(&spot).await;
        if found.home == Some(Home::Finished) { Ok(()) } else { Err(format!("{:?}", found.home)) }
    })
    .await;
    let began = tokio::time::Instant::now();
    worker.stop().await.unwrap();
    assert!(began.elapsed() < SOON, "nothing is left to be settled");
    assert_eq!(stage.record(&spot).await.outcome, Outcome::DeadlineExceeded);
}
