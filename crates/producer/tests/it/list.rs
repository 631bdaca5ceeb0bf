//! The caller's own requests, page by page.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{
    Digest, Draft, Envelope, Failure, FailureCode, Generation, Identity, QueueName, Request,
};
use holdfast_core::redis::Options;
use holdfast_core::script::{SettleKind, Submission, Submit, SubmitReply};
use holdfast_testkit::RedisServer;
use serde_json::Value;

use crate::support::{Hand, Producer, json, problem, unix_now};

impl Producer {
    async fn page(&self, query: &str) -> Value {
        let url = format!("{}/v1/queues/q/requests?{query}", self.base);
        let answer = self.http.request("GET", &url, &[], "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        json(&answer)
    }

    /// Every page of a list: how often each id was told, and how many pages there were.
    async fn whole_list(&self, query: &str) -> (HashMap<String, u32>, usize) {
        let (mut told, mut pages) = (HashMap::new(), 0);
        let mut page = self.page(query).await;
        loop {
            pages += 1;
            assert!(pages <= 100, "a list without an end: {} told", told.len());
            count(&page, &mut told);
            let Some(cursor) = page["cursor"].as_str() else { return (told, pages) };
            page = self.page(&format!("{query}&cursor={cursor}")).await;
        }
    }
}

fn count(page: &Value, told: &mut HashMap<String, u32>) {
    for row in page["requests"].as_array().unwrap() {
        *told.entry(row["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
}

fn lines(prefix: &str, count: usize, deadline: u64) -> String {
    let line = |n| format!("{{\"id\":\"{prefix}-{n}\",\"deadline\":{deadline},\"payload\":{n}}}\n");
    (0..count).map(line).collect()
}

#[tokio::test]
async fn what_stays_is_told_exactly_once_while_others_come_and_go() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    let deadline = unix_now() + 3600;
    // More with one deadline than a page looks at, and some before and behind them.
    producer.lines(lines("goes", 40, deadline - 60)).await;
    producer.lines(lines("same", 700, deadline)).await;
    producer.lines(lines("late", 40, deadline + 60)).await;
    let mut told = HashMap::new();
    let mut page = producer.page("state=pending&limit=60").await;
    let mut number = 0;
    loop {
        count(&page, &mut told);
        let Some(cursor) = page["cursor"].as_str() else { break };
        // Each page, one is claimed from the front, one comes before all and one into the midst.
        hand.claim().await;
        producer.lines(lines(&format!("new-{number}"), 1, deadline - 120)).await;
        producer.lines(lines(&format!("mid-{number}"), 1, deadline)).await;
        number += 1;
        page = producer.page(&format!("state=pending&limit=60&cursor={cursor}")).await;
    }
    assert!(number >= 12, "{number} pages");
    for (prefix, count) in [("same", 700), ("late", 40)] {
        for at in 0..count {
            let id = format!("{prefix}-{at}");
            assert_eq!(told.get(&id), Some(&1), "{id}");
        }
    }
    assert!(told.values().all(|times| *times == 1), "{told:?}");
}

#[tokio::test]
async fn a_list_of_all_goes_through_every_state_and_shard() {
    let redis = RedisServer::start().await;
    let producer = Producer::start(&redis, "", "shards = 5").await;
    producer.lines(lines("p", 50, unix_now() + 600)).await;
    for at in 0..5 {
        assert_eq!(producer.call("DELETE", &format!("p-{at}")).await.status, 200);
    }
    let later = unix_now() + 300;
    producer
        .submit(&format!(r#"{{"id":"d","timeout":"10m","not_before":{later},"payload":1}}"#))
        .await;
    for limit in [7, 100] {
        let (told, pages) = producer.whole_list(&format!("limit={limit}")).await;
        assert_eq!(told.len(), 51);
        assert!(told.values().all(|times| *times == 1));
        assert!(pages <= 30, "{pages}");
    }
    let of = async |state| producer.whole_list(&format!("state={state}")).await.0.len();
    assert_eq!((of("pending").await, of("finished").await, of("delayed").await), (45, 5, 1));
    assert_eq!((of("leased").await, of("dead").await, of("suspects").await), (0, 0, 0));
}

#[tokio::test]
async fn a_row_is_the_status_of_its_request() {
    let redis = RedisServer::start().await;
    let (producer, hand) = (Producer::on(&redis).await, Hand::on(&redis));
    hand.register(r#"{"name":"worker-7"}"#).await;
    let submit = async |id: &str| {
        producer.submit(&format!(r#"{{"id":"{id}","timeout":"10m","payload":1}}"#)).await
    };
    submit("done").await;
    hand.answer(200, b"yes").await;
    submit("retried").await;
    let failure = Failure { code: FailureCode::Reset, status: 0 };
    let lease = hand.claim().await;
    hand.settle(&lease, SettleKind::Retry { delay: Duration::from_secs(60), failure }).await;
    for id in ["runs", "stops"] {
        submit(id).await;
        hand.claim().await;
    }
    producer.call("DELETE", "stops").await;
    for (state, id) in
        [("finished", "done"), ("delayed", "retried"), ("leased", "runs"), ("cancelling", "stops")]
    {
        let page = producer.page(&format!("state={state}")).await;
        let mut status = producer.status(id).await;
        let mut row = page["requests"][0].clone();
        for told in [&mut status, &mut row] {
            if let Some(age) = told.pointer_mut("/lease/age_seconds") {
                *age = Value::Null;
            }
        }
        assert_eq!((row, &page["requests"][1]), (status, &Value::Null), "{state}");
        assert_eq!(page["cursor"], Value::Null);
    }
}

/// Submits for a tenant that is not the caller's, each with a deadline of its own, in ms.
async fn submit_as_another(redis: &RedisServer, count: usize, deadline: impl Fn(usize) -> u64) {
    let keys = ShardKeys::new(&QueueName::try_from("q").unwrap(), 0);
    let client = Redis::open(Options::new(redis.url())).unwrap();
    let submission = |number: usize| {
        let id = format!("other-{number}");
        let identity =
            Identity { tenant: "other".try_into().unwrap(), id: id.as_str().try_into().unwrap() };
        let draft = Draft {
            generation: Generation::random(),
            digest: Digest([0; 32]),
            deadline: deadline(number),
            not_before: 0,
            body_size: 1,
        };
        let key = identity.place(1.try_into().unwrap()).key;
        let (lane, body) = (String::new(), Bytes::from_static(b"1"));
        let request = Request { identity, lane, envelope: Envelope::default(), body };
        Submission::new(key, &draft, &request).unwrap()
    };
    let items: Vec<Submission> = (0..count).map(submission).collect();
    for items in items.chunks(256) {
        let replies = Submit { shard: &keys, items }.run(&client).await.unwrap();
        assert!(replies.iter().all(|it| matches!(it, SubmitReply::Accepted(_))), "{replies:?}");
    }
}

#[tokio::test]
async fn a_page_looks_at_so_many_only_and_shows_nobody_elses() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let deadline = unix_now() + 3600;
    submit_as_another(&redis, 600, |_| deadline * 1000).await;
    producer.lines(lines("own", 3, deadline + 60)).await;
    let (mut page, mut pages) = (producer.page("state=pending").await, 1);
    while page["requests"].as_array().unwrap().is_empty() {
        let cursor = page["cursor"].as_str().expect("more to come").to_owned();
        page = producer.page(&format!("state=pending&cursor={cursor}")).await;
        pages += 1;
    }
    assert_eq!(pages, 3, "256 of 603 at a time");
    assert_eq!(page["requests"].as_array().unwrap().len(), 3);
    assert!(!page.to_string().contains("other"), "{page}");
    let (told, _) = producer.whole_list("limit=1").await;
    assert_eq!(told.len(), 3);
}

#[tokio::test]
async fn a_list_goes_on_where_a_part_ends_with_the_last_of_one_deadline() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let deadline = unix_now() + 3600;
    for at in 0..3 {
        producer.lines(lines(&format!("batch-{at}"), 256, deadline + at)).await;
    }
    let (told, pages) = producer.whole_list("state=pending&limit=256").await;
    assert_eq!(told.len(), 768);
    assert!(told.values().all(|times| *times == 1));
    assert!(pages <= 4, "{pages} pages");
}

#[tokio::test]
async fn a_page_far_behind_the_first_costs_a_few_calls() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let deadline = (unix_now() + 3600) * 1000;
    submit_as_another(&redis, 600, |number| deadline + number as u64).await;
    let looks = async || {
        let counts = redis.command_counts().await;
        let of = |name| counts.get(name).copied().unwrap_or_default();
        of("zcount") + of("zrange")
    };
    let mut query = "state=pending&limit=256".to_owned();
    for page in 1..10 {
        let before = looks().await;
        let told = producer.page(&query).await;
        let spent = looks().await - before;
        assert!(spent < 20, "page {page}: {spent} looks");
        let Some(cursor) = told["cursor"].as_str() else {
            assert!((3..=4).contains(&page), "the last is page {page}");
            return;
        };
        query = format!("state=pending&limit=256&cursor={cursor}");
    }
    panic!("ten pages of 600");
}

#[tokio::test]
async fn a_list_that_is_asked_for_wrongly_is_refused() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    for query in [
        "state=nowhere",
        "limit=0",
        "limit=257",
        "cursor=x",
        "wait=1",
        "state=dead&cursor=AQAAAAAAAA",
    ] {
        let url = format!("{}/v1/queues/q/requests?{query}", producer.base);
        let answer = producer.http.request("GET", &url, &[], "").await;
        assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-query"), "{query}");
    }
    // A cursor of another queue, or of more shards, leads to nothing and harms nothing.
    let page = producer.page("cursor=AQAAAAAACQ").await;
    assert_eq!(page["requests"].as_array().unwrap().len(), 0);
}
