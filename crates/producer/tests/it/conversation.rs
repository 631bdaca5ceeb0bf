//! Submit, status, result, cancel: what one caller and one request say to each other.

use std::time::Duration;

use holdfast_core::model::{Failure, FailureCode, Outcome};
use holdfast_core::script::{Burial, SettleKind, SettleReply};
use holdfast_testkit::RedisServer;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{Hand, Producer, ack, json, problem, unix_now};

const EXACT: &str = concat!(
    r#"{"model":"demo-model","seed":9007199254740993,"big":12345678901234567890123,"#,
    r#""neg":-9223372036854775809,"f":1.0,"t":0.1000000000000000055,"z":-0.0,"e":1E22,"#,
    r#""tiny":5e-324,"tools":[],"meta":{},"stop":[null],"logit_bias":{"50256":-100},"#,
    r#""key order":{"b":1,"a":2},"esc":"\u00e9\/\ud83d\ude00","ws" :  [1 , 2],"half":"\ud83d"}"#
);

#[tokio::test]
async fn a_request_is_told_about_from_submit_to_result_and_its_bytes_stay_as_they_are() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let deadline = unix_now() + 600;
    let body = format!(r#"{{"id":"a:1","deadline":{deadline},"payload": {EXACT} }}"#);

    let submitted = producer.submit(&body).await;
    assert_eq!(submitted.status, 202, "{}", submitted.text());
    assert_eq!(submitted.header("location"), Some("/v1/queues/q/requests/a:1"));
    let told = json(&submitted);
    assert_eq!(
        (&told["id"], &told["queue"], &told["state"]),
        (&"a:1".into(), &"q".into(), &"pending".into())
    );
    assert_eq!((&told["deadline"], &told["attempts"]), (&deadline.into(), &0.into()));

    let early = producer.call("GET", "a:1/result").await;
    assert_eq!(early.status, 202);
    assert!(early.header("retry-after").is_some());
    assert_eq!(json(&early)["generation"], told["generation"]);

    let lease = hand.claim().await;
    assert_eq!(hand.body(&lease).await, EXACT.as_bytes());
    let status = producer.status("a:1").await;
    assert_eq!((&status["state"], &status["attempts"]), (&"leased".into(), &1.into()));
    assert!(status["lease"]["age_seconds"].as_f64().unwrap() < 60.0, "{status}");
    assert!(status["lease"]["session"].is_string(), "{status}");

    hand.settle(&lease, ack(418, b"{\"n\": 1.0}\xff\0")).await;
    let result = producer.call("GET", "a:1/result").await;
    assert_eq!((result.status, &result.body[..]), (200, &b"{\"n\": 1.0}\xff\0"[..]));
    assert_eq!(result.header("content-type"), Some("text/x-answer"));
    assert_eq!(result.header("holdfast-outcome"), Some("answered"));
    assert_eq!(result.header("holdfast-status"), Some("418"));
    assert_eq!(result.header("holdfast-attempts"), Some("1"));
    assert_eq!(result.header("holdfast-generation"), told["generation"].as_str());
    let again = producer.call("GET", "a:1/result").await;
    assert_eq!(again.body, result.body, "reading consumes nothing");
    let status = producer.status("a:1").await;
    assert_eq!((&status["state"], &status["outcome"]), (&"finished".into(), &"answered".into()));
    producer.stop().await.unwrap();
}

#[tokio::test]
async fn the_same_bytes_are_the_same_request_however_many_come_at_once() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let body = r#"{"id":"k30","timeout":"10m","payload":{"n":1}}"#;
    let answers = at_once(&producer, (0..50).map(|_| body.to_owned())).await;
    let accepted = answers.iter().filter(|(status, ..)| *status == 202).count();
    let replayed =
        answers.iter().filter(|(status, replayed, _)| *status == 200 && *replayed).count();
    assert_eq!((accepted, replayed), (1, 49));
    assert!(answers.iter().all(|(.., generation)| *generation == answers[0].2));
    assert_eq!(redis.command(&["ZCARD", "hf1:{q/0}:pending"]).await.int(), Some(1));
}

#[tokio::test]
async fn of_other_bytes_under_one_id_exactly_one_is_taken() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let body = |n| format!(r#"{{"id":"k30","timeout":"10m","payload":{{"n":{n}}}}}"#);
    let answers = at_once(&producer, (0..50).map(body)).await;
    assert_eq!(answers.iter().filter(|(status, ..)| *status == 202).count(), 1);
    assert_eq!(answers.iter().filter(|(status, ..)| *status == 422).count(), 49);

    let lease = hand.claim().await;
    let refused = producer.submit(&body(99)).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (422, "id-reused"));
    assert_eq!(json(&refused)["state"], "leased");
    let failure = Failure { code: FailureCode::Reset, status: 0 };
    hand.settle(&lease, SettleKind::Retry { delay: Duration::from_secs(60), failure }).await;
    assert_eq!(json(&producer.submit(&body(99)).await)["state"], "delayed");
    let status = producer.status("k30").await;
    assert_eq!(status["last_failure"]["code"], "reset", "{status}");
    assert!(status["next_try_at"].as_f64().unwrap() > unix_now() as f64 + 30.0, "{status}");
}

/// Status, whether it was told as a repeat, and generation of each.
async fn at_once(
    producer: &Producer,
    bodies: impl Iterator<Item = String>,
) -> Vec<(u16, bool, String)> {
    let url = format!("{}/v1/queues/q/requests", producer.base);
    let mut calls = JoinSet::new();
    for body in bodies {
        let (http, url) = (producer.http.clone(), url.clone());
        calls.spawn(async move {
            let json_type = [("content-type", "application/json")];
            let answer = http.request("POST", &url, &json_type, body).await;
            let replayed = answer.header("idempotent-replayed") == Some("true");
            (answer.status, replayed, json(&answer)["generation"].as_str().unwrap().to_owned())
        });
    }
    calls.join_all().await
}

#[tokio::test]
async fn a_repeat_after_the_end_is_told_the_end_and_never_runs_again() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let body = r#"{"id":"k29","timeout":"10m","payload":1}"#;
    let first = json(&producer.submit(body).await);
    hand.answer(200, b"done").await;
    let repeat = producer.submit(body).await;
    assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (200, Some("true")));
    let told = json(&repeat);
    assert_eq!((&told["generation"], &told["state"]), (&first["generation"], &"finished".into()));
    assert_eq!(told["outcome"], "answered");
    let other = producer.submit(r#"{"id":"k29","timeout":"10m","payload":2}"#).await;
    assert_eq!((other.status, problem(&other).as_str()), (422, "id-reused"));
    assert_eq!(redis.command(&["ZCARD", "hf1:{q/0}:pending"]).await.int(), Some(0));
}

#[tokio::test]
async fn what_waits_is_cancelled_at_once_and_again_without_harm() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(r#"{"id":"c","timeout":"10m","payload":1}"#).await;
    for _ in 0..2 {
        let cancelled = producer.call("DELETE", "c").await;
        assert_eq!(cancelled.status, 200);
        let told = json(&cancelled);
        assert_eq!((&told["state"], &told["outcome"]), (&"finished".into(), &"cancelled".into()));
    }
    let result = producer.call("GET", "c/result").await;
    assert_eq!((result.status, problem(&result).as_str()), (200, "cancelled"));
    assert_eq!(result.header("holdfast-outcome"), Some("cancelled"));
    let unknown = producer.call("DELETE", "nobody").await;
    assert_eq!((unknown.status, problem(&unknown).as_str()), (404, "unknown-request"));
}

#[tokio::test]
async fn what_runs_is_asked_to_stop_and_an_answer_that_comes_first_is_kept() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    for (id, answered) in [("stops", false), ("answers", true)] {
        producer.submit(&format!(r#"{{"id":"{id}","timeout":"10m","payload":1}}"#)).await;
        let lease = hand.claim().await;
        for _ in 0..2 {
            let asked = producer.call("DELETE", id).await;
            assert_eq!((asked.status, &json(&asked)["state"]), (202, &"cancelling".into()));
        }
        assert_eq!(producer.status(id).await["cancel_asked"], true);
        let settled = if answered {
            hand.settle(&lease, ack(200, b"first")).await
        } else {
            hand.settle(&lease, SettleKind::Release { sent: true, failure: None }).await
        };
        let expected =
            if answered { SettleReply::Done } else { SettleReply::Ended(Outcome::Cancelled) };
        assert_eq!(settled, expected);
        let after = producer.call("DELETE", id).await;
        let outcome = if answered { "answered" } else { "cancelled" };
        assert_eq!((after.status, &json(&after)["outcome"]), (200, &outcome.into()));
    }
}

#[tokio::test]
async fn a_pinned_call_is_about_one_generation_only() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let told = json(&producer.submit(r#"{"id":"p","timeout":"10m","payload":1}"#).await);
    let right = told["generation"].as_str().unwrap();
    let wrong = "00000000000000aa";
    for (method, rest) in [("GET", "p"), ("GET", "p/result"), ("DELETE", "p")] {
        let other = producer.call(method, &format!("{rest}?generation={wrong}")).await;
        assert_eq!(
            (other.status, problem(&other).as_str()),
            (404, "unknown-request"),
            "{method} {rest}"
        );
        let same = producer.call(method, &format!("{rest}?generation={right}")).await;
        assert!(same.status < 300, "{method} {rest}");
    }
}

#[tokio::test]
async fn a_redriven_request_still_tells_how_its_last_run_ended() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let told = json(&producer.submit(r#"{"id":"d","timeout":"10m","payload":1}"#).await);
    let first = told["generation"].as_str().unwrap();
    let lease = hand.claim().await;
    let failure = Failure { code: FailureCode::Connect, status: 0 };
    let bury = SettleKind::Bury { outcome: Burial::GaveUp, failure, answer: None };
    hand.settle(&lease, bury).await;
    let dead = producer.call("GET", "d/result").await;
    assert_eq!((dead.status, problem(&dead).as_str()), (200, "gave-up"));
    assert_eq!(json(&dead)["last_failure"]["code"], "connect");
    assert_eq!(producer.status("d").await["state"], "dead");

    hand.redrive(&lease).await;
    let status = producer.status("d").await;
    assert_eq!((&status["state"], &status["attempts"]), (&"pending".into(), &0.into()));
    assert_eq!(status["previous"]["generation"], first);
    assert_eq!(status["previous"]["outcome"], "gave-up");
    let pinned = producer.call("GET", &format!("d/result?wait=60&generation={first}")).await;
    assert_eq!((pinned.status, problem(&pinned).as_str()), (200, "gave-up"));
    assert_eq!(pinned.header("holdfast-generation"), Some(first));
    assert_eq!(producer.call("GET", "d/result").await.status, 202, "the new run has not ended");
}

#[tokio::test]
async fn the_holder_of_a_lease_is_told_by_its_name() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    hand.register(r#"{"name":"worker-7","version":"0"}"#).await;
    producer.submit(r#"{"id":"h","timeout":"10m","payload":1}"#).await;
    hand.claim().await;
    assert_eq!(producer.status("h").await["lease"]["worker"], "worker-7");
}

#[tokio::test]
async fn a_start_that_lies_ahead_is_waited_for_and_one_that_is_past_only_repeated() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let (soon, past) = (unix_now() + 2, unix_now() - 5);
    let body =
        |id, start| format!(r#"{{"id":"{id}","timeout":"10m","not_before":{start},"payload":1}}"#);
    let submitted = json(&producer.submit(&body("n", soon)).await);
    assert_eq!((&submitted["state"], &submitted["not_before"]), (&"delayed".into(), &soon.into()));
    assert_eq!(producer.status("n").await["next_try_at"], soon);
    let refused = producer.submit(&body("late", past)).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (400, "deadline-passed"));
    assert_eq!(json(&refused)["field"], "not_before");
    // Accepted with a start that has passed by the time of the repeat.
    redis.command(&["PING"]).await;
    holdfast_testkit::eventually("the start is past", crate::support::SOON, async || {
        if unix_now() > soon { Ok(()) } else { Err("not yet") }
    })
    .await;
    let repeat = producer.submit(&body("n", soon)).await;
    assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (200, Some("true")));
}

#[tokio::test]
async fn an_idempotency_key_is_the_id_and_a_made_id_is_told() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let body = r#"{"timeout":"10m","payload":1}"#;
    let keyed = producer.submit_with(&[("idempotency-key", "key-1")], body).await;
    assert_eq!(keyed.header("location"), Some("/v1/queues/q/requests/key-1"));
    let quoted = producer.submit_with(&[("idempotency-key", "\"key-1\"")], body).await;
    assert_eq!((quoted.status, quoted.header("idempotent-replayed")), (200, Some("true")));
    let differs = producer
        .submit_with(&[("idempotency-key", "key-1")], r#"{"id":"other","payload":1}"#)
        .await;
    assert_eq!((differs.status, problem(&differs).as_str()), (400, "invalid-header"));
    let made = json(&producer.submit(body).await);
    let id = made["id"].as_str().unwrap();
    assert_eq!(producer.status(id).await["generation"], made["generation"]);
}

#[tokio::test]
async fn a_queue_tells_what_it_holds() {
    let redis = RedisServer::start().await;
    let producer = Producer::start(&redis, "", "shards = 1\ncapacity = 7").await;
    producer.submit(r#"{"id":"a","timeout":"10m","payload":1}"#).await;
    let url = format!("{}/v1/queues", producer.base);
    let one = json(&producer.http.request("GET", &format!("{url}/q"), &[], "").await);
    assert_eq!(one["requests"]["pending"], 1, "{one}");
    assert_eq!((&one["limits"]["capacity"], &one["paused"]), (&7.into(), &json!(false)));
    assert!(one["head_slack_seconds"].as_f64().unwrap() > 500.0, "{one}");
    let all = json(&producer.http.request("GET", &url, &[], "").await);
    assert_eq!(all["queues"][0]["name"], "q");
}
