//! Long polls: woken at once, never for ever, and harmless to leave.

use std::time::{Duration, Instant};

use holdfast_testkit::{RedisServer, eventually};

use crate::support::{Hand, Producer, SOON, json};

/// Far below the second that a wait goes without a look of its own.
const AT_ONCE: Duration = Duration::from_millis(700);

/// Until the producer listens to the channel of the shard.
async fn until_it_listens(redis: &RedisServer) {
    eventually("the producer listens", SOON, async || {
        let listeners = redis.command(&["PUBSUB", "SHARDNUMSUB", "hf1:{q/0}:ended"]).await;
        let count = listeners.array().and_then(|it| it.get(1)?.int());
        if count == Some(1) { Ok(()) } else { Err(format!("{listeners:?}")) }
    })
    .await;
}

/// How many scripts have been called.
async fn calls(redis: &RedisServer) -> u64 {
    redis.command_counts().await.get("evalsha").copied().unwrap_or_default()
}

/// Until a wait that began after `before` calls has had its first looks: with the record, then without.
async fn until_it_waits(redis: &RedisServer, before: u64) {
    eventually("the wait has looked", SOON, async || {
        let now = calls(redis).await;
        if now >= before + 2 { Ok(()) } else { Err(format!("{before}, now {now}")) }
    })
    .await;
}

#[tokio::test]
async fn a_wait_is_woken_by_the_end_itself() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    until_it_listens(&redis).await;
    let mut took = Vec::new();
    for id in ["a", "b", "c", "d", "e"] {
        producer.submit(&format!(r#"{{"id":"{id}","timeout":"10m","payload":1}}"#)).await;
        let lease = hand.claim().await;
        producer.status(id).await;
        let before = calls(&redis).await;
        let settled = async {
            until_it_waits(&redis, before).await;
            hand.settle(&lease, crate::support::ack(200, b"woken")).await;
            Instant::now()
        };
        let wait = async {
            let answer = producer.call("GET", &format!("{id}/result?wait=60")).await;
            (answer, Instant::now())
        };
        let (settled_at, (answer, told_at)) = tokio::join!(settled, wait);
        assert_eq!((answer.status, answer.text()), (200, "woken"));
        assert_eq!(answer.header("preference-applied"), Some("wait=60"));
        took.push(told_at - settled_at);
    }
    // A machine that is busy makes some of them late.
    took.sort();
    assert!(took[2] < AT_ONCE && took[4] < SOON, "{took:?}");
}

#[tokio::test]
async fn a_wait_whose_wake_up_was_lost_comes_back_all_the_same() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    until_it_listens(&redis).await;
    producer.submit(r#"{"id":"k38","timeout":"10m","payload":1}"#).await;
    let lease = hand.claim().await;
    producer.status("k38").await;
    let before = calls(&redis).await;
    let settled = async {
        until_it_waits(&redis, before).await;
        redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        hand.settle(&lease, crate::support::ack(200, b"found")).await;
        Instant::now()
    };
    let wait = async {
        let answer = producer.call("GET", "k38/result?wait=60").await;
        (answer, Instant::now())
    };
    let (settled_at, (answer, told_at)) = tokio::join!(settled, wait);
    assert_eq!((answer.status, answer.text()), (200, "found"));
    // Far from the minute that it would wait.
    assert!(told_at - settled_at < SOON, "{:?}", told_at - settled_at);
}

#[tokio::test]
async fn a_wait_is_shortened_to_what_is_granted_and_ends_with_the_status() {
    let redis = RedisServer::start().await;
    let producer = Producer::start(&redis, "wait_max = \"1s\"", "").await;
    producer.submit(r#"{"id":"w","timeout":"10m","payload":1}"#).await;
    let started = Instant::now();
    let answer = producer.call("GET", "w/result?wait=99999999999999999999").await;
    assert!(started.elapsed() >= Duration::from_secs(1));
    assert_eq!((answer.status, &json(&answer)["state"]), (202, &"pending".into()));
    assert_eq!(answer.header("preference-applied"), Some("wait=1"));
    assert!(answer.header("retry-after").is_some());
    let unknown = producer.call("GET", "nobody/result?wait=60").await;
    assert_eq!(unknown.status, 404, "nobody waits for what is not there");
}

#[tokio::test]
async fn a_submit_that_wants_to_wait_is_answered_like_a_result() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let body = r#"{"id":"p","timeout":"10m","payload":1}"#;
    let submit = producer.submit_with(&[("prefer", "respond-async, wait=60")], body);
    let (answer, ()) = tokio::join!(submit, hand.answer(429, b"busy"));
    assert_eq!((answer.status, answer.text()), (200, "busy"));
    assert_eq!(answer.header("holdfast-status"), Some("429"));
    assert_eq!(answer.header("preference-applied"), Some("wait=60"));
    let repeat = producer.submit_with(&[("prefer", "wait=60")], body).await;
    assert_eq!((repeat.status, repeat.text()), (200, "busy"));
    assert_eq!(repeat.header("idempotent-replayed"), Some("true"));
    let other = r#"{"id":"p2","timeout":"10m","payload":1}"#;
    let early = producer.submit_with(&[("prefer", "wait=1")], other).await;
    assert_eq!((early.status, &json(&early)["state"]), (202, &"pending".into()));
    assert_eq!(early.header("preference-applied"), Some("wait=1"));
}

#[tokio::test]
async fn answers_of_every_size_come_whole_to_who_waits_with_the_submit() {
    const SIZES: [&[u8]; 5] = [b"", b"x", &[b'y'; 4_000], &[b'z'; 4_200], &[b'l'; 100_000]];
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    for (at, sent) in SIZES.into_iter().enumerate() {
        let body = format!(r#"{{"id":"size-{at}","timeout":"10m","payload":1}}"#);
        let submit = producer.submit_with(&[("prefer", "wait=60")], &body);
        let (answer, ()) = tokio::join!(submit, hand.answer(200, sent));
        assert_eq!((answer.status, answer.text().as_bytes()), (200, sent));
    }
}

#[tokio::test]
async fn a_stopping_producer_answers_its_waits_early_and_ends() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(r#"{"id":"w","timeout":"10m","payload":1}"#).await;
    let idle = tokio::net::TcpStream::connect(producer.base.strip_prefix("http://").unwrap());
    let idle = idle.await.unwrap();
    producer.status("w").await;
    let before = calls(&redis).await;
    let wait = producer.call("GET", "w/result?wait=300");
    let stop = async {
        until_it_waits(&redis, before).await;
        producer.begin_stop();
        Instant::now()
    };
    let (answer, stopped_at) = tokio::join!(wait, stop);
    assert_eq!((answer.status, &json(&answer)["state"]), (202, &"pending".into()));
    // It would have waited for five minutes.
    assert!(stopped_at.elapsed() < SOON, "{:?}", stopped_at.elapsed());
    producer.ended().await.unwrap();
    assert!(stopped_at.elapsed() < SOON * 2, "{:?}", stopped_at.elapsed());
    drop(idle);
}

#[tokio::test]
async fn who_leaves_a_wait_cancels_nothing() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(r#"{"id":"w","timeout":"10m","payload":1}"#).await;
    let wait = producer.call("GET", "w/result?wait=300");
    let left = tokio::time::timeout(Duration::from_millis(200), wait).await;
    assert!(left.is_err(), "it would have waited on");
    let status = producer.status("w").await;
    assert_eq!(
        (&status["state"], &status["cancel_asked"]),
        (&"pending".into(), &serde_json::Value::Null)
    );
    producer.stop().await.unwrap();
}
