//! Redis full, away, slow or forgetful: what a caller is told, and what is true afterwards.

use std::error::Error;
use std::time::{Duration, Instant};

use holdfast_core::script;
use holdfast_runtime::declare::Undeclarable;
use holdfast_testkit::http::Answer;
use holdfast_testkit::proxy::{Fault, When, evalsha};
use holdfast_testkit::{Proxy, RedisServer, eventually};
use tokio::task::JoinSet;

use crate::support::{Hand, Producer, SOON, json, problem};

/// Below the patience of the callers of the cases.
const FEW_SECONDS: Duration = Duration::from_secs(3);

fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","timeout":"10m","payload":{{"of":"{id}"}}}}"#)
}

fn sha_of(name: &str) -> String {
    script::all().into_iter().find(|script| script.name == name).unwrap().sha1
}

async fn pending(redis: &RedisServer) -> Option<i64> {
    redis.command(&["ZCARD", "hf1:{q/0}:pending"]).await.int()
}

#[tokio::test]
async fn a_full_queue_refuses_what_is_new_and_never_a_repeat() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::start(&redis, "", "capacity = 2").await, Hand::on(&redis));
    for id in ["a", "b"] {
        assert_eq!(producer.submit(&item(id)).await.status, 202);
    }
    let full = producer.submit(&item("c")).await;
    assert_eq!((full.status, problem(&full).as_str()), (429, "queue-full"));
    assert_eq!(json(&full)["limit"], "requests");
    let repeat = producer.submit(&item("a")).await;
    assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(producer.call("GET", "c").await.status, 404, "nothing was stored");
    hand.answer(200, b"room").await;
    assert_eq!(producer.submit(&item("c")).await.status, 202);
}

#[tokio::test]
async fn a_counter_that_somebody_overwrote_is_a_fault_that_is_told_and_repeats_are_known() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    assert_eq!(producer.submit(&item("a")).await.status, 202);
    let bytes = ["hf1:{q/0}:meta", "bytes"];
    let before = redis.command(&["HGET", bytes[0], bytes[1]]).await;
    redis.command(&["HSET", bytes[0], bytes[1], "spoiled"]).await;
    let refused = producer.submit(&item("b")).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (500, "internal"));
    assert!(refused.text().contains("nothing was stored"), "{}", refused.text());
    assert_eq!(producer.call("GET", "b").await.status, 404);
    let repeat = producer.submit(&item("a")).await;
    assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (200, Some("true")));
    redis.command(&["HSET", bytes[0], bytes[1], before.text().unwrap()]).await;
    assert_eq!(producer.submit(&item("b")).await.status, 202);
}

#[tokio::test]
async fn at_maxmemory_what_is_new_is_refused_and_a_repeat_is_told_what_is_kept() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(&item("a")).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let full = producer.submit(&item("b")).await;
    assert_eq!((full.status, problem(&full).as_str()), (429, "store-full"));
    let repeat = producer.submit(&item("a")).await;
    assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (200, Some("true")));
    let other = producer.submit(r#"{"id":"a","payload":"other"}"#).await;
    assert_eq!((other.status, problem(&other).as_str()), (422, "id-reused"));
    assert_eq!(producer.call("DELETE", "a").await.status, 200, "it drains all the same");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(producer.submit(&item("b")).await.status, 202);
}

#[tokio::test]
async fn a_redis_that_takes_no_writes_is_named_so() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let refused = producer.submit(&item("a")).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "store-read-only"));
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    assert_eq!(producer.submit(&item("a")).await.status, 202);
}

#[tokio::test]
async fn a_lost_reply_is_asked_for_again_and_the_request_is_there_once() {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let producer = Producer::open(&proxy.url(), "", "").await;
    eventually("a first submit", SOON, async || {
        let answer = producer.submit(&item("first")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    let lost = proxy.inject(Fault::LoseReply, When::Nth(1), evalsha(&sha_of("submit")));
    let answer = producer.submit(&item("a")).await;
    assert_eq!(lost.fired(), 1);
    assert_eq!(
        answer.status,
        202,
        "its own first copy is no repeat of the caller's: {}",
        answer.text()
    );
    assert_eq!(answer.header("idempotent-replayed"), None);
    assert_eq!(pending(&redis).await, Some(2));

    // A cancel, too, is repeated by the handle.
    let lost = proxy.inject(Fault::LoseReply, When::Nth(1), evalsha(&sha_of("cancel")));
    let cancelled = producer.call("DELETE", "a").await;
    assert_eq!((cancelled.status, lost.fired()), (200, 1));
    assert_eq!(json(&cancelled)["outcome"], "cancelled");
}

#[tokio::test]
async fn a_first_copy_that_arrives_after_its_repeat_was_answered_changes_nothing() {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let producer = Producer::open(&proxy.url(), "", "").await;
    eventually("a first submit", SOON, async || {
        let answer = producer.submit(&item("first")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    let held = proxy.inject(Fault::HoldRequest, When::Nth(1), evalsha(&sha_of("submit")));
    let answer = producer.submit(&item("a")).await;
    assert_eq!((answer.status, held.fired()), (202, 1));
    let before = json(&answer)["generation"].clone();
    proxy.release_held().await;
    assert_eq!(producer.status("a").await["generation"], before);
    assert_eq!(pending(&redis).await, Some(2));
}

#[tokio::test]
async fn who_is_to_repeat_with_an_id_that_was_made_is_told_it() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(&item("before")).await;
    redis.pause();
    let body = r#"{"timeout":"10m","payload":1}"#;
    let unknown = producer.submit(body).await;
    redis.resume();
    assert_eq!((unknown.status, problem(&unknown).as_str()), (503, "outcome-unknown"));
    let told = json(&unknown);
    let id = told["id"].as_str().unwrap();
    eventually("the repeat is answered", SOON, async || {
        let repeat = producer.submit_with(&[("idempotency-key", id)], body).await;
        if repeat.status < 300 { Ok(()) } else { Err(repeat.text().to_owned()) }
    })
    .await;
    assert_eq!(pending(&redis).await, Some(2));
}

#[tokio::test]
async fn while_redis_is_frozen_each_call_is_answered_soon_and_honestly() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(&item("before")).await;
    redis.pause();
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let (http, base) = (producer.http.clone(), producer.base.clone());
        calls.spawn(async move {
            // When this caller comes: they are spread over four seconds, before and after it is known that nobody answers.
            tokio::time::sleep(Duration::from_millis(20 * n)).await;
            let started = Instant::now();
            let (method, url, body) = match n % 4 {
                3 => ("GET", format!("{base}/v1/queues/q/requests/before"), String::new()),
                _ => ("POST", format!("{base}/v1/queues/q/requests"), item(&format!("r{n}"))),
            };
            let json_type = [("content-type", "application/json")];
            let answer = http.request(method, &url, &json_type, body).await;
            (n, answer.status, problem(&answer), started.elapsed())
        });
    }
    let answers = calls.join_all().await;
    redis.resume();
    for (n, status, name, took) in &answers {
        assert_eq!(*status, 503);
        assert!(*took < FEW_SECONDS * 3, "r{n} took {took:?}");
        assert!(matches!(name.as_str(), "outcome-unknown" | "store-unreachable"), "{name}");
    }
    // A pause of the machine may make some of them late.
    let late = answers.iter().filter(|(.., took)| *took >= FEW_SECONDS).count();
    assert!(late <= answers.len() / 10, "{late} of {} took longer", answers.len());
    let unknown = answers.iter().filter(|(_, _, name, _)| name == "outcome-unknown").count();
    assert!(unknown < 100, "{unknown} were sent to a redis that was known to be away");

    eventually("redis is back", SOON, async || {
        let answer = producer.submit(&item("after")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    // What was refused for good is not there; what was told as unknown may be.
    for (n, _, name, _) in answers {
        let known = producer.call("GET", &format!("r{n}")).await.status;
        assert!(known == 404 || name == "outcome-unknown", "r{n}: {name}, now {known}");
        let repeat =
            if n % 4 == 3 { 200 } else { producer.submit(&item(&format!("r{n}"))).await.status };
        assert!(matches!(repeat, 200 | 202), "r{n}: {repeat}");
    }
    assert_eq!(pending(&redis).await, Some(152), "each of the 150, before and after: once");
}

/// Everything that looks and changes nothing: of callers, then of operators.
async fn looks(producer: &Producer) -> Vec<Answer> {
    let callers = ["requests/a", "requests/a/result", "requests", ""];
    let operators = [
        "queues",
        "queues/q",
        "queues/q/why/a",
        "leases",
        "workers",
        "queues/q/dead",
        "queues/q/dead/letters/a",
    ];
    let callers = callers.map(|rest| format!("{}/v1/queues/q/{rest}", producer.base));
    let operators = operators.map(|rest| format!("{}/v1/ops/{rest}", producer.operators));
    let mut asked = JoinSet::new();
    for url in callers.into_iter().chain(operators) {
        let (http, url) = (producer.http.clone(), url.trim_end_matches('/').to_owned());
        asked.spawn(async move { http.request("GET", &url, &[], "").await });
    }
    asked.join_all().await
}

#[tokio::test]
async fn a_look_is_told_what_suits_a_look_while_redis_is_away() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(&item("a")).await;
    redis.pause();
    let answers = looks(&producer).await;
    redis.resume();
    for answer in answers {
        assert_eq!((answer.status, problem(&answer).as_str()), (503, "store-unreachable"));
        let told = answer.text();
        assert!(told.contains("ask again") && !told.contains("same bytes"), "{told}");
    }
}

#[tokio::test]
async fn a_look_that_redis_denies_is_told_so() {
    let redis = RedisServer::start().await;
    redis.command(&["ACL", "SETUSER", "api", "on", ">pw", "~*", "&*", "+@all"]).await;
    let producer =
        Producer::open(&format!("redis://api:pw@127.0.0.1:{}", redis.port()), "", "").await;
    eventually("it works", SOON, async || {
        let answer = producer.submit(&item("a")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    redis.command(&["ACL", "SETUSER", "api", "-@read"]).await;
    for answer in looks(&producer).await {
        let told = answer.text();
        assert_eq!((answer.status, problem(&answer).as_str()), (503, "store-denied"), "{told}");
        assert!(!told.contains("same bytes"), "{told}");
    }
    redis.command(&["ACL", "SETUSER", "api", "+@all"]).await;
    assert_eq!(producer.call("GET", "a").await.status, 200);
}

#[tokio::test]
async fn submits_that_arrive_together_travel_in_one_call() {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let producer = Producer::open(&proxy.url(), "", "").await;
    eventually("a first submit", SOON, async || {
        let answer = producer.submit(&item("first")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    let submit = sha_of("submit");
    let slow =
        proxy.inject(Fault::DelayReply(Duration::from_millis(700)), When::Nth(1), evalsha(&submit));
    let calls = proxy.count(evalsha(&submit));
    let mut submits = JoinSet::new();
    let mut go = |id: String| {
        let (http, url) =
            (producer.http.clone(), format!("{}/v1/queues/q/requests", producer.base));
        submits.spawn(async move {
            http.request("POST", &url, &[("content-type", "application/json")], item(&id))
                .await
                .status
        });
    };
    go("alone".to_owned());
    slow.wait_fired(1, SOON).await;
    for n in 0..100 {
        go(format!("r{n}"));
    }
    assert!(submits.join_all().await.iter().all(|status| *status == 202));
    let calls = calls.matched();
    assert!((2..=4).contains(&calls), "{calls} calls for 101 submits");
    assert_eq!(pending(&redis).await, Some(102));
}

#[tokio::test]
async fn a_queue_that_redis_forgot_is_declared_again() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    redis.command(&["FLUSHALL"]).await;
    assert_eq!(producer.submit(&item("a")).await.status, 202);
    let capacity = redis.command(&["HGET", "hf1:{q/0}:meta", "capacity"]).await;
    assert_eq!(capacity.text(), Some("100000"));
}

#[tokio::test]
async fn a_producer_that_starts_before_its_redis_works_once_it_is_there() {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    proxy.go_down();
    let producer = Producer::open(&proxy.url(), "", "").await;
    let refused = producer.submit(&item("a")).await;
    assert_eq!(refused.status, 503, "{}", refused.text());
    proxy.restore();
    eventually("it works", SOON, async || {
        let answer = producer.submit(&item("a")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
}

#[tokio::test]
async fn settings_that_do_not_fit_what_redis_holds_end_the_process_with_the_reason() {
    let redis = RedisServer::start().await;
    Producer::start(&redis, "", "shards = 1").await.stop().await.unwrap();
    let other = Producer::open(redis.url(), "", "shards = 2").await;
    let failure = other.ended().await.unwrap_err();
    let why = failure.source().and_then(|source| source.downcast_ref::<Undeclarable>());
    assert!(matches!(why, Some(Undeclarable::Shards { .. })), "{failure:?}");

    redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let evicting = Producer::open(redis.url(), "", "shards = 1").await;
    let failure = evicting.ended().await.unwrap_err();
    let why = failure.source().and_then(|source| source.downcast_ref::<Undeclarable>());
    assert!(matches!(why, Some(Undeclarable::Server(_))), "{failure:?}");
}

#[tokio::test]
async fn bodies_up_to_the_limit_travel_whole() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let payload = format!("\"{}\"", "x".repeat((8 << 20) - 64));
    let large = format!(r#"{{"id":"large","timeout":"10m","payload":{payload}}}"#);
    let answer = producer.submit(&large).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let lease = hand.claim().await;
    assert!(hand.body(&lease).await == payload.as_bytes(), "byte for byte");
}
