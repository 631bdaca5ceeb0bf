//! Lost replies, cut connections, and a script that refuses.

use std::time::Duration;

use holdfast_core::model::{Home, Outcome};
use holdfast_core::script;
use holdfast_testkit::proxy::{command, evalsha};
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Fault, Proxy, When, eventually};

use crate::support::{SOON, Stage};

fn sha(name: &str) -> String {
    script::all().into_iter().find(|it| it.name == name).unwrap().sha1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_is_sent_again_and_dispatches_once() {
    let stage = Stage::set().await;
    // Declares the queue, and is gone before there is something to claim.
    stage.worker("", "").await.stop().await.unwrap();
    let spot = stage.submit("a", "{}").await;
    let claim = script::all().into_iter().find(|it| it.name == "claim").unwrap();
    stage.redis.command(&["SCRIPT", "LOAD", &claim.text]).await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let lost = proxy.inject(Fault::LoseReply, When::Each, evalsha(&claim.sha1));
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    lost.wait_fired(3, SOON).await;
    assert_eq!(stage.gateway.counts().arrived, 0);
    let claims = stage.find(&spot).await;
    assert_eq!((claims.home, claims.ticket.attempts), (Some(Home::Leased), 1), "leased once");
    proxy.clear();

    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts, record.lapses), (Outcome::Answered, 1, 0));
    assert_eq!(stage.gateway.counts().arrived, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_is_answered_late_moves_no_deadline() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    // The worker knows the clock of Redis from now on.
    let spot = stage.submit("first", "{}").await;
    stage.record(&spot).await;
    let slow = Fault::DelayReply(Duration::from_millis(1500));
    let late = proxy.inject(slow, When::Each, evalsha(&sha("claim")));
    // One waits at the bell that will be answered late.
    late.wait_matched(1, SOON).await;
    let spot = stage.submit_for("late", "{}", Duration::from_millis(1200)).await;
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::DeadlineExceeded, 1));
    assert_eq!(stage.gateway.counts().arrived, 1, "it is not called after its deadline");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_whose_reply_is_lost_is_sent_again_and_frees_its_slot() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "concurrency = 1", "").await;
    let lost = proxy.inject(Fault::LoseReply, When::First(2), evalsha(&sha("settle")));
    let (first, second) = (stage.submit("a", "{}").await, stage.submit("b", "{}").await);
    for spot in [first, second] {
        let record = stage.record(&spot).await;
        assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 1));
    }
    lost.wait_fired(2, SOON).await;
    assert_eq!(stage.gateway.counts().arrived, 2);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_can_not_be_read_yet_is_asked_for_again() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    let cut = proxy.inject(Fault::LoseReply, When::First(3), command("HMGET"));
    // Too large to come along with its claim.
    let spot = stage.submit("a", format!("{{\"n\": \"{}\"}}", "x".repeat(20_000))).await;
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 1));
    cut.wait_fired(3, SOON).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_takes_no_writes_is_asked_seldom_and_everything_goes_on_afterwards() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    let refused = "MISCONF Redis is configured to save RDB snapshots".to_owned();
    let claims = proxy.inject(Fault::Refuse(refused), When::Each, evalsha(&sha("claim")));
    claims.wait_fired(1, SOON).await;
    let (before, started) = (claims.fired(), tokio::time::Instant::now());
    claims.wait_fired(before + 3, SOON).await;
    let rate = 3.0 / started.elapsed().as_secs_f64();
    assert!(rate < 2.0, "{rate} a second");
    proxy.clear();
    let spot = stage.submit("a", "{}").await;
    assert_eq!(stage.record(&spot).await.outcome, Outcome::Answered);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_group_that_fails_as_a_whole_only_the_one_that_fails_alone_is_buried() {
    let stage = Stage::set().await;
    stage.gateway.script(vec![Rule::on_body("again").status(503)]).unwrap();
    stage.gateway.hold(true);
    let worker = stage.worker("concurrency = 32", "").await;
    let mut again = Vec::new();
    for at in 0..15 {
        again.push(stage.submit(&format!("a{at}"), r#"{"n": "again"}"#).await);
    }
    let poison = stage.submit("poison", r#"{"n": "answered"}"#).await;
    stage.arrivals(16).await;
    // Nothing can be finished any more; a retry, and a burial, can.
    stage.redis.command(&["SET", &poison.shard.finished, "no sorted set"]).await;
    stage.gateway.hold(false);

    eventually("it is buried", SOON, async || {
        let dead = [b"ZSCORE", poison.shard.dead.as_bytes(), poison.handle.as_bytes()];
        stage.redis.command(&dead).await.bytes().map(drop).ok_or("not yet")
    })
    .await;
    stage.redis.command(&["DEL", &poison.shard.finished]).await;
    let dead = stage.at_home(&poison, Home::Dead).await;
    assert_eq!((dead.ticket.attempts, dead.ticket.lapses), (1, 0));
    for spot in &again {
        let settled =
            eventually("it is settled as it was meant: to be retried", SOON, async || {
                let found = stage.find(spot).await;
                if found.ticket.failure.is_some() { Ok(found) } else { Err(format!("{found:?}")) }
            })
            .await;
        assert!(!matches!(settled.home, Some(Home::Dead | Home::Finished)), "{settled:?}");
        assert_eq!(settled.ticket.lapses, 0);
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_that_somebody_killed_is_sent_again_as_it_was() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    let words = "ERR Script killed by user with SCRIPT KILL... script: 694a, on @user_script:1.";
    let refused = Fault::Refuse(words.to_owned());
    let killed = proxy.inject(refused, When::First(1), evalsha(&sha("settle")));
    let spot = stage.submit("a", "{}").await;
    let record = stage.record(&spot).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 1));
    killed.wait_fired(1, SOON).await;
    assert_eq!(stage.gateway.counts().arrived, 1);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_each_of_many_restarts_of_redis_the_worker_works_again() {
    let stage = Stage::set().await;
    let worker = stage.worker("", "").await;
    for round in 0..4 {
        stage.redis.kill().await;
        stage.redis.restart().await;
        let spot = stage.submit(&format!("a{round}"), "{}").await;
        assert_eq!(stage.record(&spot).await.outcome, Outcome::Answered);
    }
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_asks_redis_for_little() {
    let stage = Stage::with_shards(2).await;
    let worker = stage.worker("", "").await;
    let spot = stage.submit("warm", "{}").await;
    stage.record(&spot).await;
    // What a start and the first request bring along may come a little later than its end.
    eventually("a second goes by without a script", SOON, async || {
        stage.redis.command(&["CONFIG", "RESETSTAT"]).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let counts = stage.redis.command_counts().await;
        if counts.contains_key("evalsha") { Err(format!("{counts:?}")) } else { Ok(()) }
    })
    .await;
    stage.redis.command(&["CONFIG", "RESETSTAT"]).await;
    let started = tokio::time::Instant::now();
    // What is counted is what happens in a while in which nothing is to happen.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (counts, seconds) = (stage.redis.command_counts().await, started.elapsed().as_secs_f64());
    let count = |name: &str| counts.get(name).copied().unwrap_or_default();
    // A look at each of two shards each poll of one to two seconds, and no claim.
    let (looks, least, most) = (count("exists") as f64, seconds - 3.0, 2.0 * seconds + 2.0);
    assert!(looks >= least && looks <= most, "in {seconds} s: {counts:?}");
    assert!(count("blpop") <= 1 && count("evalsha") == 0, "{counts:?}");
    worker.stop().await.unwrap();
}
