//! A real model answers through Holdfast, also when a worker is killed on the way.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

#[path = "../it/fleet.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod fleet;
mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use fleet::{Fleet, Role, SOON, Setup};
use holdfast_testkit::http::Answer;
use holdfast_testkit::{RedisServer, eventually};
use model::Model;
use serde_json::{Value, json};

const REQUESTS: usize = 50;
/// Few: what is said matters less here than that it is said by a model.
const MAX_TOKENS: u64 = 8;
/// How long the whole of it may take where others use the machine too.
const LIMIT: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
async fn fifty_answers_of_a_real_model_although_a_worker_is_killed() {
    let Some(model) = Model::start().await else { return };
    let fleet = fleet_for(&model).await;
    let (mut doomed, heir, _reclaimer) = (fleet.worker(), fleet.worker(), fleet.reclaimer());
    fleet.ready(doomed.ops).await;
    fleet.ready(heir.ops).await;
    for n in 0..REQUESTS {
        submit(&fleet, n).await;
    }

    ended(&fleet, REQUESTS / 5).await;
    kill_at_work(&fleet, &mut doomed).await;

    let mut said = BTreeSet::new();
    let mut lapses = 0;
    for n in 0..REQUESTS {
        let answer = result(&fleet, n).await;
        said.insert(content(&answer));
        let status = fleet.call("GET", &path(&id(n)), b"").await;
        let status: Value = serde_json::from_slice(&status.body).expect("a status in JSON");
        assert_eq!(status["outcome"], "answered", "{status}");
        lapses += status["lapses"].as_u64().expect("a number");
    }
    assert!(lapses >= 1, "nothing was taken over: the worker was killed between two calls");
    // A small model repeats itself, but no canned answer says so many things.
    assert!(said.len() >= REQUESTS / 5, "{said:?}");
}

/// Roles whose queue `real` leads to the model.
async fn fleet_for(model: &Model) -> Fleet {
    let setup = Setup {
        worker: "concurrency = 4\nlease = \"3s\"\nrenew = \"1s\"".to_owned(),
        more: format!("[queues.real]\ntarget = \"{}\"", model.url),
        ..Setup::default()
    };
    Fleet::with(setup, RedisServer::start().await).await
}

fn id(n: usize) -> String {
    format!("question-{n}")
}

fn path(id: &str) -> String {
    format!("/v1/queues/real/requests/{id}")
}

/// No question is asked twice.
fn question(n: usize) -> String {
    let about = [
        "the sea",
        "a tree",
        "München",
        "日本",
        "apples",
        "the moon",
        "a \"quote\"",
        "rain",
        "cats",
        "π",
    ];
    let ask =
        ["Describe", "Who likes", "Write a poem about", "What is the colour of", "Where do I find"];
    format!("{} {}?", ask[n / about.len() % ask.len()], about[n % about.len()])
}

async fn submit(fleet: &Fleet, n: usize) {
    let payload = json!({
        "model": "smollm2",
        "messages": [{"role": "user", "content": question(n)}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
    });
    let item = json!({"id": id(n), "timeout": "10m", "payload": payload}).to_string();
    let answer = fleet.call("POST", "/v1/queues/real/requests", item.as_bytes()).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

/// Waits until so many requests have ended.
async fn ended(fleet: &Fleet, wanted: usize) {
    eventually("some have their answer", LIMIT, async || {
        let mut ended = 0;
        for n in 0..REQUESTS {
            let status = fleet.call("GET", &format!("{}/result", path(&id(n))), b"").await.status;
            ended += usize::from(status == 200);
        }
        if ended >= wanted { Ok(()) } else { Err(format!("{ended} have")) }
    })
    .await;
}

/// Kills a worker at a moment at which calls of it are under way.
async fn kill_at_work(fleet: &Fleet, worker: &mut Role) {
    let limit = SOON;
    eventually("the worker calls the model", limit, async || {
        match fleet.metric(worker, "holdfast_in_flight", "real").await {
            calls if calls >= 1.0 => Ok(()),
            calls => Err(format!("{calls} calls")),
        }
    })
    .await;
    worker.process.kill();
}

/// The result of a request, once there is one.
async fn result(fleet: &Fleet, n: usize) -> Answer {
    let path = format!("{}/result?wait=10", path(&id(n)));
    eventually("the answer", LIMIT, async || {
        let answer = fleet.call("GET", &path, b"").await;
        if answer.status == 200 { Ok(answer) } else { Err(answer.text().to_owned()) }
    })
    .await
}

/// What the model said, which is something.
fn content(answer: &Answer) -> String {
    assert_eq!(answer.header("holdfast-outcome"), Some("answered"), "{}", answer.text());
    assert_eq!(answer.header("holdfast-status"), Some("200"), "{}", answer.text());
    let body: Value = serde_json::from_slice(&answer.body).expect("an answer in JSON");
    let tokens = body["usage"]["completion_tokens"].as_u64().expect("a count of tokens");
    assert!((1..=MAX_TOKENS).contains(&tokens), "{body}");
    let message = &body["choices"][0]["message"];
    assert_eq!(message["role"], "assistant", "{body}");
    let said = message["content"].as_str().expect("text").to_owned();
    assert!(!said.trim().is_empty(), "{body}");
    said
}
