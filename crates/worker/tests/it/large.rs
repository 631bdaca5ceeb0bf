//! What is larger than others are together, on its way to a worker and back.

use std::time::Duration;

use holdfast_core::model::{FailureCode, Home, Outcome};
use holdfast_testkit::proxy::command;
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Fault, Proxy, When};

use crate::support::{LATER, SHORT_LEASE, SOON, Spot, Stage, Worker};

/// A link that needs 4 s for what is large, where a call may take 2 s.
const SLOW: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_may_take_longer_than_other_calls_and_holds_up_none() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let is_large = |words: &[Vec<u8>]| words.iter().any(|word| word.len() > 1 << 20);
    let slow = proxy.inject(Fault::DelayRequest(SLOW), When::Each, is_large);
    stage.gateway.script(vec![Rule::on_body("large").body("a".repeat(2 << 20))]).unwrap();
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    let large = stage.submit("large", r#"{"n": "large"}"#).await;
    slow.wait_fired(1, SOON).await;
    let small = stage.submit("small", "{}").await;
    assert_eq!(stage.record(&small).await.outcome, Outcome::Answered);
    assert_eq!(stage.find(&large).await.home, Some(Home::Leased), "it is still on its way");
    let record = stage.record(&large).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 1));
    assert_eq!(slow.fired(), 1, "and is sent once");
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_is_back_once_a_probe_is_answered_however_long_its_answer_takes_to_be_kept() {
    let stage = Stage::set().await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let is_large = |words: &[Vec<u8>]| words.iter().any(|word| word.len() > 1 << 20);
    let slow = proxy.inject(Fault::DelayRequest(2 * SOON), When::Each, is_large);
    // Five refusals with no answer among them open the breaker; the next call is a probe.
    let rules = vec![
        Rule::new().status(503).times(5),
        Rule::new().body("a".repeat(2 << 20)).times(1),
        Rule::new(),
    ];
    stage.gateway.script(rules).unwrap();
    let worker = stage.worker_by(&proxy.url(), "", "concurrency = 5").await;
    for at in 0..5 {
        stage.submit(&format!("a{at}"), "{}").await;
    }
    slow.wait_fired(1, SOON).await;
    // The probe is answered, and its answer is on its way for longer than this waits.
    stage.arrivals(10).await;
    // Not stopped: it would wait for that answer.
    drop(worker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_may_take_longer_than_other_calls_and_holds_up_none() {
    let stage = set().await;
    let large = submit(&stage, "large", LATER).await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let slow = proxy.inject(Fault::DelayReply(SLOW), When::Each, reads(&[&large]));
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    slow.wait_fired(1, SOON).await;
    for at in 0..3 {
        let small = stage.submit(&format!("small{at}"), "{}").await;
        assert_eq!(stage.record(&small).await.outcome, Outcome::Answered);
    }
    assert_eq!(stage.find(&large).await.home, Some(Home::Leased), "it is still on its way");
    let record = stage.record(&large).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 1));
    assert_eq!(slow.fired(), 1, "and is asked for once");
    assert_eq!(&stage.gateway.arrivals()[3].body[..], body().as_bytes());
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_large_bodies_of_a_shard_one_is_read_at_a_time() {
    let stage = set().await;
    let (first, second) =
        (submit(&stage, "first", LATER).await, submit(&stage, "second", LATER).await);
    let proxy = Proxy::start(stage.redis.port()).await;
    let slow = proxy.inject(Fault::DelayReply(SLOW), When::First(1), reads(&[&first, &second]));
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    slow.wait_fired(1, SOON).await;
    let small = stage.submit("small", "{}").await;
    stage.at_home(&first, Home::Leased).await;
    stage.at_home(&second, Home::Leased).await;
    assert_eq!(stage.record(&small).await.outcome, Outcome::Answered);
    assert_eq!(slow.matched(), 1, "the second waits for its turn");
    for large in [&first, &second] {
        let record = stage.record(large).await;
        assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 1));
    }
    assert_eq!(slow.matched(), 2);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_that_can_not_be_read_yet_is_asked_for_again() {
    let stage = set().await;
    let large = submit(&stage, "large", LATER).await;
    let proxy = Proxy::start(stage.redis.port()).await;
    let lost = proxy.inject(Fault::LoseReply, When::First(2), reads(&[&large]));
    let worker = stage.worker_by(&proxy.url(), "", "").await;
    let record = stage.record(&large).await;
    assert_eq!((record.outcome, record.attempts), (Outcome::Answered, 1));
    assert_eq!(lost.matched(), 3);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_request_without_a_readable_body_is_buried() {
    let stage = set().await;
    let (gone, broken) =
        (submit(&stage, "gone", LATER).await, submit(&stage, "broken", LATER).await);
    let requests = gone.shard.request.as_bytes();
    stage.redis.command(&[b"HDEL", requests, gone.key.as_bytes()]).await;
    stage.redis.command(&[b"HSET", requests, broken.key.as_bytes(), b"\x09nonsense"]).await;
    let worker = stage.worker("", "").await;
    for spot in [&gone, &broken] {
        let record = stage.record(spot).await;
        assert_eq!(record.outcome, Outcome::Unusable);
        assert_eq!(record.failure.unwrap().code, FailureCode::Unusable);
    }
    assert_eq!(stage.gateway.counts().arrived, 0);
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_ends_the_reading_of_a_large_body() {
    let Reading { stage, large, worker, proxy: _proxy } = Reading::begin("", LATER).await;
    stage.cancel(&large).await;
    assert_eq!(stage.record(&large).await.outcome, Outcome::Cancelled);
    the_slot_is_free(&stage).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_ends_the_reading_of_a_large_body() {
    let Reading { stage, large, worker, proxy: _proxy } =
        Reading::begin("", Duration::from_secs(3)).await;
    assert_eq!(stage.record(&large).await.outcome, Outcome::DeadlineExceeded);
    the_slot_is_free(&stage).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lease_ends_the_reading_of_a_large_body() {
    let Reading { stage, large, worker, proxy: _proxy } = Reading::begin(SHORT_LEASE, LATER).await;
    // As if it had lapsed and another had claimed it since.
    let leased = large.shard.leased.as_bytes();
    let other = [&b"ffffffffffffffff0000000000000001|"[..], large.handle.as_bytes()].concat();
    stage.redis.command(&[b"DEL", leased]).await;
    stage.redis.command(&[b"ZADD", leased, b"9999999999999", &other]).await;
    the_slot_is_free(&stage).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_that_is_not_read_within_the_drain_is_handed_back_uncharged() {
    let Reading { stage, large, worker, proxy: _proxy } =
        Reading::begin("drain = \"300ms\"", LATER).await;
    worker.stop().await.unwrap();
    let found = stage.find(&large).await;
    assert_eq!((found.home, found.ticket.attempts), (Some(Home::Pending), 0));
    assert_eq!(stage.gateway.counts().arrived, 0);
}

/// A worker whose only slot is taken by a large request that will never be read.
struct Reading {
    stage: Stage,
    large: Spot,
    worker: Worker,
    /// To be kept for as long as the worker runs.
    proxy: Proxy,
}

impl Reading {
    async fn begin(settings: &str, time: Duration) -> Self {
        let stage = set().await;
        let large = submit(&stage, "large", time).await;
        let proxy = Proxy::start(stage.redis.port()).await;
        let silent = proxy.inject(Fault::Swallow, When::Each, reads(&[&large]));
        let settings = format!("concurrency = 1\n{settings}");
        let worker = stage.worker_by(&proxy.url(), &settings, "").await;
        silent.wait_fired(1, SOON).await;
        Self { stage, large, worker, proxy }
    }
}

async fn the_slot_is_free(stage: &Stage) {
    let small = stage.submit("small", "{}").await;
    assert_eq!(stage.record(&small).await.outcome, Outcome::Answered);
    assert_eq!(stage.gateway.counts().arrived, 1, "nothing else was called");
}

fn body() -> String {
    format!("\"{}\"", "b".repeat(2 << 20))
}

/// A stage whose queue is declared, and nobody works on it.
async fn set() -> Stage {
    let stage = Stage::set().await;
    stage.worker("", "").await.stop().await.unwrap();
    stage
}

async fn submit(stage: &Stage, id: &str, time: Duration) -> Spot {
    stage.submit_for(id, body(), time).await
}

/// Matches the calls that read one of these.
fn reads(spots: &[&Spot]) -> impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static {
    let (is_read, spots) =
        (command("HMGET"), spots.iter().map(|spot| (*spot).clone()).collect::<Vec<_>>());
    move |words| {
        let names = |spot: &Spot| words.iter().any(|word| word == spot.key.as_bytes());
        is_read(words) && spots.iter().any(names)
    }
}
