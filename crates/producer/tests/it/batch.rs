//! Many items in one call: what each is told, and what is kept of it.

use holdfast_core::script;
use holdfast_testkit::proxy::{Fault, When, evalsha};
use holdfast_testkit::{Proxy, RedisServer, eventually};
use serde_json::Value;

use crate::support::{Hand, LINES, Producer, SOON, json, outcomes, problem, problem_of, unix_now};

fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","timeout":"10m","payload":{{"of":"{id}"}}}}"#)
}

fn items(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| item(&format!("{prefix}-{number}"))).collect()
}

fn statuses(told: &[Value]) -> Vec<u64> {
    told.iter().map(|line| line["status"].as_u64().unwrap()).collect()
}

async fn pending(redis: &RedisServer) -> Option<i64> {
    redis.command(&["ZCARD", "hf1:{q/0}:pending"]).await.int()
}

#[tokio::test]
async fn each_item_is_told_its_own_outcome_in_order_and_a_bad_one_refuses_itself_only() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(&item("old")).await;
    let lines = [
        item("a"),
        item("old"),
        r#"{"id":"bad","payload":MARKER}"#.to_owned(),
        r#"{"id":"old","timeout":"10m","payload":"other"}"#.to_owned(),
        r#"{"timeout":"10m","payload":1}"#.to_owned(),
        "[1,2]".to_owned(),
        r#"{"id":"late","deadline":1,"payload":1}"#.to_owned(),
        r#"{"id":"starts","deadline":NOW,"not_before":1,"payload":1}"#
            .replace("NOW", &(unix_now() + 60).to_string()),
        item("b"),
    ];
    let told = producer.lines(lines.join("\n")).await;
    assert_eq!(statuses(&told), [202, 200, 400, 422, 202, 400, 400, 400, 202]);
    assert_eq!((&told[0]["id"], &told[0]["state"]), (&"a".into(), &"pending".into()));
    assert_eq!(told[0]["generation"], producer.status("a").await["generation"]);
    assert_eq!((&told[1]["replayed"], &told[0]["replayed"]), (&true.into(), &Value::Null));
    assert_eq!(problem_of(&told[2]), "invalid-item");
    assert!(!told[2].to_string().contains("MARKER"));
    assert_eq!(
        (&told[2]["problem"]["line"], &told[2]["problem"]["column"]),
        (&3.into(), &23.into())
    );
    assert_eq!((problem_of(&told[3]), &told[3]["id"]), ("id-reused", &"old".into()));
    assert_eq!(told[3]["problem"]["generation"], told[1]["generation"]);
    let made = told[4]["id"].as_str().unwrap();
    assert_eq!(producer.status(made).await["generation"], told[4]["generation"]);
    assert_eq!(problem_of(&told[5]), "invalid-item");
    assert_eq!(problem_of(&told[6]), "deadline-passed");
    assert_eq!(told[7]["problem"]["field"], "not_before");
    assert_eq!(pending(&redis).await, Some(4));
}

#[tokio::test]
async fn an_array_and_lines_are_the_same_batch() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let (one, two) = (item("a"), item("b"));
    let array = format!(" [\n{one} ,\n {two}\n]\n");
    let told = outcomes(&producer.batch("application/json; charset=utf-8", array).await);
    assert_eq!(statuses(&told), [202, 202]);
    assert_eq!((&told[0]["line"], &told[1]["line"]), (&2.into(), &3.into()));
    for kind in [LINES, "application/ndjson", "application/jsonl", "application/json"] {
        let told = outcomes(&producer.batch(kind, format!("\u{feff}{one}\r\n\n {two} ")).await);
        assert_eq!(statuses(&told), [200, 200], "the space around an item is no part of it");
        assert_eq!((&told[0]["line"], &told[1]["line"]), (&1.into(), &3.into()));
    }
    let alone = producer.submit(&one).await;
    assert_eq!((alone.status, alone.header("idempotent-replayed")), (200, Some("true")));
}

#[tokio::test]
async fn what_is_no_batch_is_refused_as_a_whole() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    for (kind, body) in [
        (LINES, ""),
        (LINES, "\n"),
        (LINES, "\u{feff}\r\n  \n"),
        ("application/json", ""),
        ("application/json", " [ ] "),
        ("application/json", "["),
        ("application/json", "[] {}"),
    ] {
        let answer = producer.batch(kind, body).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-batch"), "{body:?}");
    }
    for kind in ["text/plain", "application/json; charset=utf-16", "application/x-ndjson-x"] {
        let answer = producer.batch(kind, item("a")).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (415, "unsupported-media-type"));
    }
    let url = format!("{}/v1/queues/q/batch", producer.base);
    let keyed = [("content-type", LINES), ("idempotency-key", "a")];
    let answer = producer.http.request("POST", &url, &keyed, item("a")).await;
    assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-header"));
    let typed = [("content-type", LINES)];
    let answer = producer.http.request("POST", &format!("{url}?wait=1"), &typed, item("a")).await;
    assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-query"));
    let url = format!("{}/v1/queues/nobody/batch", producer.base);
    let answer = producer.http.request("POST", &url, &typed, item("a")).await;
    assert_eq!((answer.status, problem(&answer).as_str()), (404, "unknown-queue"));
    let answer = producer.http.request("GET", &url, &typed, "").await;
    assert_eq!((answer.status, problem(&answer).as_str()), (405, "method-not-allowed"));
    assert_eq!(pending(&redis).await, Some(0));
}

#[tokio::test]
async fn an_array_that_breaks_takes_nothing_back_and_says_where_it_broke() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    for (id, end) in [("a", ""), ("b", "]]"), ("c", ",")] {
        let body = format!("[{},{}{end}", item(id), item(&format!("{id}2")));
        let told = outcomes(&producer.batch("application/json", body).await);
        // What no comma and no bracket stands behind may go on.
        let taken = if end.is_empty() { 1 } else { 2 };
        assert_eq!(told.len(), taken + 1, "{told:?}");
        assert_eq!(told[0]["status"], 202);
        assert_eq!(
            (problem_of(&told[taken]), &told[taken]["unread"]),
            ("invalid-batch", &true.into())
        );
        assert_eq!(told[taken]["line"], Value::Null);
    }
}

#[tokio::test]
async fn a_payload_in_a_batch_is_kept_byte_for_byte() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let exact = concat!(
        r#"{"seed":9007199254740993,"f":1.0,"z":-0.0,"e":1E22,"tools":[],"#,
        r#""esc":"\u00e9\/\ud83d","ws" :  [1 , 2]}"#
    );
    let spread = exact.replace(" ", "\n\t");
    for (kind, id, payload) in [(LINES, "l", exact), ("application/json", "a", spread.as_str())] {
        let body = format!(r#"[{{"id":"{id}","timeout":"10m","payload": {payload} }}]"#);
        let body = if kind == LINES { body.trim_matches(['[', ']']) } else { &body };
        let told = outcomes(&producer.batch(kind, body.to_owned()).await);
        assert_eq!(statuses(&told), [202], "{told:?}");
        let lease = hand.claim().await;
        assert_eq!(hand.body(&lease).await, payload.as_bytes());
    }
}

#[tokio::test]
async fn an_id_that_comes_twice_is_one_request_and_says_where_it_came_first() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let lines = [
        item("k"),
        item("other"),
        r#"{"id":"k","timeout":"10m","payload":"different"}"#.to_owned(),
        item("k"),
        r#"{"id":"","timeout":"10m","payload":1}"#.to_owned(),
    ];
    let told = producer.lines(lines.join("\n")).await;
    assert_eq!(statuses(&told), [202, 202, 422, 200, 400]);
    assert_eq!((&told[2]["same_id_as"], problem_of(&told[2])), (&0.into(), "id-reused"));
    assert_eq!((&told[3]["same_id_as"], &told[3]["replayed"]), (&0.into(), &true.into()));
    assert_eq!(told[3]["generation"], told[0]["generation"]);
    assert_eq!((&told[1]["same_id_as"], problem_of(&told[4])), (&Value::Null, "invalid-id"));
    assert_eq!(pending(&redis).await, Some(2));
}

#[tokio::test]
async fn an_item_that_is_too_long_refuses_itself_only() {
    let redis = RedisServer::start().await;
    let producer = Producer::start(&redis, "", "body_limit = \"1KiB\"").await;
    let long = |size: usize| format!(r#"{{"id":"long","payload":"{}"}}"#, "x".repeat(size));
    for size in [1024, 1 << 20] {
        let lines = [item("a"), long(size), item("b")].join("\n");
        let array = format!("[{},{},{}]", item("a"), long(size), item("b"));
        for (kind, body) in [(LINES, lines), ("application/json", array)] {
            let told = outcomes(&producer.batch(kind, body).await);
            assert_eq!(told.len(), 3);
            assert_eq!(
                (problem_of(&told[1]), &told[1]["problem"]["limit"]),
                ("body-too-large", &1024.into())
            );
            assert!(
                told[0]["status"].as_u64() < Some(300) && told[2]["status"].as_u64() < Some(300)
            );
        }
    }
}

#[tokio::test]
async fn a_queue_that_fills_up_on_the_way_is_told_to_each_and_the_same_batch_again_takes_the_rest()
{
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::start(&redis, "", "capacity = 3").await, Hand::on(&redis));
    let batch = items("f", 5).join("\n");
    let told = producer.lines(batch.clone()).await;
    assert_eq!(statuses(&told), [202, 202, 202, 429, 429]);
    assert_eq!(
        (problem_of(&told[4]), &told[4]["problem"]["limit"]),
        ("queue-full", &"requests".into())
    );
    for _ in 0..3 {
        hand.answer(200, b"room").await;
    }
    let told = producer.lines(batch).await;
    assert_eq!(statuses(&told), [200, 200, 200, 202, 202]);
}

#[tokio::test]
async fn at_maxmemory_each_item_is_told_by_itself() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let half = items("m", 3).join("\n");
    producer.lines(half).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let batch = items("m", 5).join("\n");
    let told = producer.lines(batch.clone()).await;
    assert_eq!(statuses(&told), [200, 200, 200, 429, 429]);
    assert_eq!(problem_of(&told[3]), "store-full");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(statuses(&producer.lines(batch).await), [200, 200, 200, 202, 202]);
}

#[tokio::test]
async fn replies_that_are_lost_on_the_way_cost_no_item_and_double_none() {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let producer = Producer::open(&proxy.url(), "", "").await;
    eventually("a first submit", SOON, async || {
        let answer = producer.submit(&item("first")).await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    let submit = script::all().into_iter().find(|it| it.name == "submit").unwrap().sha1;
    let lost = proxy.inject(Fault::LoseReply, When::Nth(2), evalsha(&submit));
    let told = producer.lines(items("l", 1000).join("\n")).await;
    assert_eq!((told.len(), lost.fired()), (1000, 1));
    assert!(
        told.iter().all(|line| line["status"] == 202),
        "its own copies are no repeats: {told:?}"
    );
    assert_eq!(pending(&redis).await, Some(1001));
}

#[tokio::test]
async fn while_redis_is_frozen_each_item_is_told_so_and_the_same_batch_again_takes_each_once() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.submit(&item("before")).await;
    let batch = items("z", 300).join("\n");
    redis.pause();
    let told = producer.lines(batch.clone()).await;
    redis.resume();
    assert_eq!(told.len(), 300);
    for line in &told {
        assert!(matches!(problem_of(line), "outcome-unknown" | "store-unreachable"), "{line}");
    }
    eventually("redis answers again", SOON, async || {
        let told = producer.lines(batch.clone()).await;
        if statuses(&told).iter().all(|status| *status < 300) { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert_eq!(pending(&redis).await, Some(301));
}

#[tokio::test]
async fn many_items_travel_in_few_calls_and_are_claimed_in_their_order() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    producer.submit(r#"{"id":"first","timeout":"1m","payload":1}"#).await;
    let deadline = unix_now() + 600;
    let line = |n| format!(r#"{{"id":"o-{n}","deadline":{deadline},"payload":{n}}}"#);
    let lines: Vec<String> = (0..2000).map(line).collect();
    let before = redis.command_counts().await.get("evalsha").copied().unwrap_or_default();
    let told = producer.lines(lines.join("\n")).await;
    let after = redis.command_counts().await.get("evalsha").copied().unwrap_or_default();
    assert!(told.iter().all(|line| line["status"] == 202));
    assert!(after - before <= 60, "{} calls for 2000 items", after - before);
    assert_eq!(hand.body(&hand.claim().await).await, "1", "the earliest deadline");
    for expected in 0..100 {
        let lease = hand.claim().await;
        assert_eq!(hand.body(&lease).await, expected.to_string(), "equal deadlines in their order");
    }
}

#[tokio::test]
async fn the_items_of_a_batch_are_counted_one_by_one() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    producer.lines(items("n", 3).join("\n")).await;
    let depth = format!("{}/v1/queues/q", producer.base);
    let depth = json(&producer.http.request("GET", &depth, &[], "").await);
    assert_eq!(depth["requests"]["pending"], 3);
}
