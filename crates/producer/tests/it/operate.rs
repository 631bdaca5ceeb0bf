//! The operators' calls over HTTP: every one of the table, its refusals, and who is not answered.

use std::time::Duration;

use holdfast_core::model::{Failure, FailureCode};
use holdfast_core::script::{Burial, SettleKind, SettleReply};
use holdfast_runtime::keys::Key;
use holdfast_testkit::http::Answer;
use holdfast_testkit::{RedisServer, eventually};
use serde_json::{Value, json};

use super::support::{Hand, Producer, SOON, json as body, problem};

/// Calls the operators' listener; whatever is not a GET brings a body.
async fn call(producer: &Producer, method: &str, path: &str, said: Value) -> Answer {
    let url = format!("{}/v1/ops/{path}", producer.operators);
    let headers: &[(&str, &str)] =
        if method == "GET" { &[] } else { &[("content-type", "application/json")] };
    let said = if method == "GET" { String::new() } else { said.to_string() };
    producer.http.request(method, &url, headers, said).await
}

/// The same, which must be answered with 200.
async fn ok(producer: &Producer, method: &str, path: &str, said: Value) -> Value {
    let answer = call(producer, method, path, said).await;
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    body(&answer)
}

async fn submit(producer: &Producer, id: &str) {
    let answer = producer.submit(&format!(r#"{{"id":"{id}","timeout":"10m","payload":1}}"#)).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn gave_up() -> SettleKind {
    let failure = Failure { code: FailureCode::Reset, status: 0 };
    SettleKind::Bury { outcome: Burial::GaveUp, failure, answer: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_looked_at_paused_limited_and_explained() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    submit(&producer, "a").await;
    let queues = ok(&producer, "GET", "queues", Value::Null).await;
    assert_eq!(queues["queues"][0]["requests"]["pending"], 1);

    let told = ok(&producer, "POST", "queues/q/pause", json!({ "dry_run": true })).await;
    assert_eq!(
        (&told["outcome"], &told["after"]["paused"]["value"]),
        (&"dry-run".into(), &true.into())
    );
    let told = ok(&producer, "POST", "queues/q/pause", json!({ "version": 0 })).await;
    assert_eq!((&told["outcome"], &told["pending"]), (&"set".into(), &1.into()));
    let why = ok(&producer, "GET", "queues/q/why/a", Value::Null).await;
    assert_eq!(why["hold"], "paused");
    assert_eq!(why["suggestion"], "Let it go on: holdfastctl queue resume q.");
    let late = call(&producer, "POST", "queues/q/resume", json!({ "version": 0 })).await;
    assert_eq!((late.status, problem(&late).as_str()), (409, "overtaken"));
    assert_eq!(body(&late)["version"], 1);
    ok(&producer, "POST", "queues/q/resume", json!({})).await;

    let told = ok(&producer, "PUT", "queues/q/limit", json!({ "in_flight": 7 })).await;
    assert_eq!(told["after"]["limit"], json!({ "value": 7, "version": 1 }));
    let shown = ok(&producer, "GET", "queues/q", Value::Null).await;
    assert_eq!((&shown["limit"], &shown["overrides"]["limit"]["version"]), (&7.into(), &1.into()));
    ok(&producer, "PUT", "queues/q/limit", json!({ "in_flight": null })).await;
    assert_eq!(ok(&producer, "GET", "queues/q", Value::Null).await["limit"], Value::Null);
    let why = ok(&producer, "GET", "queues/q/why/nothing?tenant=other", Value::Null).await;
    assert_eq!((&why["hold"], &why["tenant"]), (&"unknown".into(), &"other".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_off_is_pulled_forward_and_a_lease_ended_only_as_they_were_seen() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let worker = Hand::on(&redis);
    submit(&producer, "a").await;
    let lease = worker.claim().await;
    let leases = ok(&producer, "GET", "leases?queue=q", Value::Null).await;
    assert_eq!((&leases["rows"][0]["id"], &leases["more"]), (&"a".into(), &false.into()));
    let workers = ok(&producer, "GET", "workers", Value::Null).await;
    assert!(workers["rows"].is_array(), "{workers}");
    let fence = leases["rows"][0]["fence"].clone();
    let other = json!({ "fence": "0".repeat(32) });
    let refused = call(&producer, "POST", "queues/q/leases/a/release", other).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (409, "not-applicable"));
    let ended = ok(&producer, "POST", "queues/q/leases/a/release", json!({ "fence": fence })).await;
    assert_eq!(ended["outcome"], "returned");
    let late = worker.settle(&lease, gave_up()).await;
    assert_eq!(late, SettleReply::Fenced);

    let lease = worker.claim().await;
    let failure = Failure { code: FailureCode::Status, status: 503 };
    let delay = Duration::from_secs(60);
    worker.settle(&lease, SettleKind::Retry { delay, failure }).await;
    let why = ok(&producer, "GET", "queues/q/why/a", Value::Null).await;
    assert_eq!((&why["hold"], &why["last_failure"]["status"]), (&"back-off".into(), &503.into()));
    let path = "queues/q/requests/a/retry-now";
    let refused = call(&producer, "POST", path, json!({ "due": 5 })).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (409, "not-applicable"));
    let moved = ok(&producer, "POST", path, json!({ "due": why["next_try_at"] })).await;
    assert_eq!(moved["outcome"], "moved");
    let unknown = call(&producer, "POST", "queues/q/requests/x/retry-now", json!({})).await;
    assert_eq!((unknown.status, problem(&unknown).as_str()), (404, "unknown-request"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_counted_and_run_again() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let worker = Hand::on(&redis);
    for id in ["a", "b", "c"] {
        submit(&producer, id).await;
        let lease = worker.claim().await;
        worker.settle(&lease, gave_up()).await;
    }
    let mut ids = Vec::new();
    let mut path = "queues/q/dead?outcome=gave-up&limit=2".to_owned();
    loop {
        let page = ok(&producer, "GET", &path, Value::Null).await;
        ids.extend(page["rows"].as_array().unwrap().iter().map(|row| row["id"].clone()));
        let Some(cursor) = page["cursor"].as_str() else { break };
        path = format!("queues/q/dead?outcome=gave-up&limit=2&cursor={cursor}");
    }
    assert_eq!(ids.len(), 3, "{ids:?}");
    let letter = ok(&producer, "GET", "queues/q/dead/letters/b", Value::Null).await;
    assert_eq!((&letter["id"], &letter["has_body"]), (&"b".into(), &true.into()));

    let path = "queues/q/dead/redrive";
    let one = json!({ "ids": ["b"], "filter": { "tenant": "default" }, "dry_run": true });
    let counted = ok(&producer, "POST", path, one).await;
    assert_eq!((&counted["outcome"], &counted["matched"]), (&"counted".into(), &1.into()));
    let mut all = json!({ "filter": { "outcome": "gave-up" } });
    let unconfirmed = call(&producer, "POST", path, all.clone()).await;
    assert_eq!((unconfirmed.status, problem(&unconfirmed).as_str()), (400, "invalid-operation"));
    assert_eq!(body(&unconfirmed)["field"], "count");
    all["dry_run"] = true.into();
    let counted = ok(&producer, "POST", path, all.clone()).await;
    all["dry_run"] = false.into();
    all["count"] = 2.into();
    all["as_of"] = counted["as_of"].clone();
    let done = ok(&producer, "POST", path, all).await;
    assert_eq!((&done["outcome"], &done["redriven"]), (&"done".into(), &2.into()));
    let shown = ok(&producer, "GET", "queues/q", Value::Null).await;
    assert_eq!((&shown["requests"]["dead"], &shown["requests"]["pending"]), (&1.into(), &2.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused_and_not_repeated() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    for (method, path, said, status, kind) in [
        ("GET", "queues/Q/why/a", Value::Null, 400, "invalid-name"),
        ("GET", "queues/nowhere/why/a", Value::Null, 404, "unknown-queue"),
        ("GET", "queues/q/why/a?tenant=S3CRET", Value::Null, 400, "invalid-query"),
        ("GET", "queues/q/why/a?who=S3CRET", Value::Null, 400, "invalid-query"),
        ("GET", "queues/q/dead?outcome=S3CRET", Value::Null, 400, "invalid-operation"),
        ("GET", "queues/q/dead?cursor=S3CRET", Value::Null, 400, "invalid-operation"),
        ("GET", "queues/q/dead?limit=0", Value::Null, 400, "invalid-query"),
        ("GET", "leases?queue=S3CRET", Value::Null, 404, "unknown-queue"),
        ("GET", "S3CRET", Value::Null, 404, "not-found"),
        ("GET", "queues/q/pause", Value::Null, 405, "method-not-allowed"),
        ("POST", "queues/q/pause", json!({ "S3CRET": 1 }), 400, "invalid-operation"),
        ("POST", "queues/q/pause", json!("S3CRET"), 400, "invalid-operation"),
        ("PUT", "queues/q/limit", json!({}), 400, "invalid-operation"),
        ("PUT", "queues/q/limit", json!({ "in_flight": 0 }), 400, "invalid-operation"),
        (
            "POST",
            "queues/q/leases/a/release",
            json!({ "fence": "S3CRET" }),
            400,
            "invalid-operation",
        ),
        (
            "POST",
            "queues/q/dead/redrive",
            json!({ "filter": { "S3CRET": 1 } }),
            400,
            "invalid-operation",
        ),
        ("GET", "queues/q/dead/letters/a", Value::Null, 404, "unknown-request"),
    ] {
        let answer = call(&producer, method, path, said).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (status, kind), "{method} {path}");
        assert!(!answer.text().contains("S3CRET"), "{method} {path}: {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_cannot_act_and_a_foreign_name_is_not_answered() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let url = format!("{}/v1/ops/queues/q/pause", producer.operators);
    for headers in [&[][..], &[("content-type", "text/plain")]] {
        let answer = producer.http.request("POST", &url, headers, "{}").await;
        assert_eq!((answer.status, problem(&answer).as_str()), (415, "unsupported-media-type"));
    }
    for host in ["evil.example", "evil.example:8081", "localhost.evil.example"] {
        let url = format!("{}/v1/ops/queues", producer.operators);
        let answer = producer.http.request("GET", &url, &[("host", host)], "").await;
        assert_eq!((answer.status, problem(&answer).as_str()), (421, "foreign-host"), "{host}");
    }
    let url = format!("{}/v1/ops/queues", producer.base);
    let answer = producer.http.request("GET", &url, &[], "").await;
    assert_eq!(answer.status, 404, "callers have no such routes");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_keys_an_operator_needs_one_with_the_scope_and_may_use_any_name() {
    let redis = RedisServer::start().await;
    let (caller, operator) = (Key::random(), Key::random());
    let line = |scopes: &str, name: &str, key: &Key| {
        format!("tenant=acme scopes={scopes} name={name} sha256={}\n", key.hash())
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    let lines = line("submit,read,cancel", "app", &caller) + &line("operate", "kim", &operator);
    std::fs::write(&file, lines).unwrap();
    let setting = format!("keys_file = \"{}\"", file.display());
    let producer = Producer::start(&redis, &setting, "").await;
    let url = format!("{}/v1/ops/queues/q", producer.operators);
    let ask = async |key: Option<&Key>| {
        let bearer = key.map(|key| format!("Bearer {}", key.expose()));
        let mut headers = vec![("host", "operate.example")];
        headers.extend(bearer.as_deref().map(|it| ("authorization", it)));
        producer.http.request("GET", &url, &headers, "").await
    };
    let nobody = ask(None).await;
    assert_eq!((nobody.status, problem(&nobody).as_str()), (401, "unauthorized"));
    let other = ask(Some(&caller)).await;
    assert_eq!((other.status, problem(&other).as_str()), (403, "forbidden"));
    let shown = ask(Some(&operator)).await;
    assert_eq!((shown.status, &body(&shown)["name"]), (200, &"q".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_does_not_hear_a_pause_keeps_no_other_from_hearing_it_and_is_told() {
    let redis = RedisServer::start().await;
    let producer = Producer::start(&redis, "", "shards = 4").await;
    for shard in 1..4 {
        let meta = format!("hf1:{{q/{shard}}}:meta");
        eventually("the shard is declared", SOON, async || {
            redis.command(&["HGET", &meta, "capacity"]).await.bytes().map(drop).ok_or("no policy")
        })
        .await;
    }
    redis.command(&["DEL", "hf1:{q/1}:meta"]).await;
    redis.command(&["SET", "hf1:{q/1}:meta", "x"]).await;
    let told = call(&producer, "POST", "queues/q/pause", json!({ "version": 0 })).await;
    for shard in [0, 2, 3] {
        let meta = format!("hf1:{{q/{shard}}}:meta");
        let paused = redis.command(&["HGET", &meta, "paused"]).await;
        assert_eq!(paused.text(), Some("1"), "shard {shard}: {}", told.text());
    }
    assert_eq!((told.status, problem(&told).as_str()), (503, "outcome-unknown"));
    let told = body(&told);
    assert_eq!((&told["version"], &told["shards_unheard"]), (&1.into(), &1.into()), "{told}");
    assert!(!told["detail"].as_str().unwrap().contains("nothing was changed"), "{told}");
    // Who says it again says it as before.
    redis.command(&["DEL", "hf1:{q/1}:meta"]).await;
    let again = ok(&producer, "POST", "queues/q/pause", json!({ "version": 0 })).await;
    assert_eq!((&again["outcome"], &again["shards_changed"]), (&"already".into(), &1.into()));
    let other = call(&producer, "POST", "queues/q/resume", json!({ "version": 0 })).await;
    assert_eq!((other.status, problem(&other).as_str()), (409, "overtaken"));
}
