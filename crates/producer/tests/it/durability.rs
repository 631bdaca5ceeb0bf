//! A queue that asks for more than Redis gives by itself: what is told, what is waited for, and what is refused.

use std::time::Instant;

use holdfast_core::script;
use holdfast_testkit::http::Answer;
use holdfast_testkit::proxy::{Fault, When, command, evalsha};
use holdfast_testkit::{AppendFsync, Proxy, RedisServer, eventually};
use serde_json::{Value, json as value};
use tokio::task::JoinSet;

use crate::support::{Hand, Producer, SOON, json, problem};

const REPLICATED: &str = "durability = \"replicated\"";
const FSYNCED: &str = "durability = \"fsynced\"";

fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","timeout":"10m","payload":{{"of":"{id}"}}}}"#)
}

/// The status of an answer, and what it says of its durability.
fn told(answer: &Answer) -> (u16, Value) {
    (answer.status, json(answer)["durability"].clone())
}

fn replicated() -> Value {
    value!({"asked": "replicated", "reached": "replicated", "replicas": 1})
}

fn not_replicated() -> Value {
    value!({"asked": "replicated", "reached": "acknowledged", "replicas": 0})
}

fn fsynced() -> Value {
    value!({"asked": "fsynced", "reached": "fsynced"})
}

fn not_fsynced() -> Value {
    value!({"asked": "fsynced", "reached": "acknowledged"})
}

async fn info(redis: &RedisServer, section: &str) -> String {
    redis.command(&["INFO", section]).await.text().unwrap().to_owned()
}

/// Waits until the server is sent, and no more, as many replicas as that.
async fn has_replicas(redis: &RedisServer, count: usize) {
    eventually("the replicas are as they should be", SOON, async || {
        let text = info(redis, "replication").await;
        let online = text.matches("state=online").count();
        if online == count { Ok(()) } else { Err(text) }
    })
    .await;
}

/// A primary with one replica.
async fn pair() -> (RedisServer, RedisServer) {
    let primary = RedisServer::with(|it| {
        it.args.extend(["--repl-diskless-sync-delay", "0"].map(str::to_owned));
    })
    .await;
    let replica = RedisServer::start().await;
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    has_replicas(&primary, 1).await;
    (primary, replica)
}

fn sha_of(name: &str) -> String {
    script::all().into_iter().find(|script| script.name == name).unwrap().sha1
}

async fn field(redis: &RedisServer, name: &str) -> u64 {
    let value = redis.command(&["HGET", "hf1:{q/0}:meta", name]).await;
    value.text().map_or(0, |text| text.parse().unwrap())
}

/// Waits until so many clients block: a wait is under way.
async fn blocked(redis: &RedisServer, count: usize) {
    eventually("a wait is under way", SOON, async || {
        let text = info(redis, "clients").await;
        let line = format!("blocked_clients:{count}\r\n");
        if text.contains(&line) { Ok(()) } else { Err(text) }
    })
    .await;
}

#[tokio::test]
async fn what_a_replica_has_is_told_as_replicated_and_what_it_has_not_as_202() {
    let (primary, replica) = pair().await;
    let producer = Producer::start(&primary, "", REPLICATED).await;
    let hand = Hand::on(&primary);
    let accepted = producer.submit(&item("a")).await;
    assert_eq!(told(&accepted), (202, replicated()));
    assert!(accepted.header("location").is_some());
    let repeat = producer.submit(&item("a")).await;
    assert_eq!(told(&repeat), (200, replicated()));
    assert_eq!(repeat.header("idempotent-replayed"), Some("true"));
    assert_eq!(told(&producer.call("GET", "a").await), (200, replicated()));

    replica.pause();
    // A new one, a repeat and a look that write nothing of their own, and the result of one that ends now.
    assert_eq!(told(&producer.submit(&item("b")).await), (202, not_replicated()));
    let repeat = producer.submit(&item("a")).await;
    assert_eq!(told(&repeat), (202, not_replicated()));
    assert_eq!(repeat.header("idempotent-replayed"), Some("true"));
    assert_eq!(told(&producer.call("GET", "a").await), (202, not_replicated()));
    hand.answer(200, b"the answer").await;
    let early = producer.call("GET", "a/result?wait=1").await;
    assert_eq!(told(&early), (202, not_replicated()));
    assert_eq!(json(&early)["state"], "finished", "it has ended, and may yet be lost");
    assert!(early.header("retry-after").is_some());
    let cancelled = producer.call("DELETE", "b").await;
    assert_eq!(told(&cancelled), (202, not_replicated()));
    assert_eq!(json(&cancelled)["outcome"], "cancelled");

    replica.resume();
    eventually("the repeat tells that the replica has it", SOON, async || {
        let answer = producer.submit(&item("b")).await;
        if told(&answer) == (200, replicated()) { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    assert_eq!(told(&producer.call("GET", "b").await), (200, replicated()));
    assert_eq!(told(&producer.call("DELETE", "b").await), (200, replicated()));
    let result = producer.call("GET", "a/result").await;
    assert_eq!((result.status, &result.body[..]), (200, &b"the answer"[..]));
    assert_eq!(result.header("holdfast-outcome"), Some("answered"));
}

#[tokio::test]
async fn without_its_replica_a_queue_refuses_before_anything_is_written() {
    let (primary, replica) = pair().await;
    let producer = Producer::start(&primary, "", REPLICATED).await;
    assert_eq!(producer.submit(&item("a")).await.status, 202);
    replica.kill().await;
    has_replicas(&primary, 0).await;
    let before = [field(&primary, "seq").await, field(&primary, "tick").await];

    let refused = producer.submit(&item("b")).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "durability-unavailable"));
    let refused = producer.call("DELETE", "a").await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "durability-unavailable"));
    // What is kept is told all the same, and how safe it is.
    let plain = value!({"asked": "replicated", "reached": "acknowledged"});
    let status = producer.call("GET", "a").await;
    assert_eq!(told(&status), (202, plain.clone()));
    assert_eq!(json(&status)["state"], "pending", "the cancel was refused");
    let repeat = producer.submit(&item("a")).await;
    assert_eq!(told(&repeat), (202, plain));
    assert_eq!(repeat.header("idempotent-replayed"), Some("true"));
    let other = producer.submit(r#"{"id":"a","payload":"other"}"#).await;
    assert_eq!((other.status, problem(&other).as_str()), (422, "id-reused"));
    assert_eq!(producer.call("GET", "b").await.status, 404);
    let after = [field(&primary, "seq").await, field(&primary, "tick").await];
    assert_eq!(after, before, "nothing was written");

    replica.restart().await;
    let port = primary.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    has_replicas(&primary, 1).await;
    assert_eq!(told(&producer.submit(&item("b")).await), (202, replicated()));
}

#[tokio::test]
async fn one_replica_is_not_two() {
    let (primary, _replica) = pair().await;
    let queue = format!("{REPLICATED}\nreplicas = 2");
    let producer = Producer::start(&primary, "", &queue).await;
    let refused = producer.submit(&item("a")).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "durability-unavailable"));
    let detail = json(&refused)["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("2 replicas are asked for, and 1 is connected"), "{detail}");
}

#[tokio::test]
async fn what_is_on_the_disk_is_told_as_fsynced_and_what_is_not_as_202() {
    let redis = RedisServer::recent(|_| {}).await;
    let producer = Producer::start(&redis, "", FSYNCED).await;
    assert_eq!(told(&producer.submit(&item("a")).await), (202, fsynced()));
    assert_eq!(told(&producer.submit(&item("a")).await), (200, fsynced()));
    assert_eq!(told(&producer.call("GET", "a").await), (200, fsynced()));
    // From now on the disk is asked when the system pleases.
    redis.command(&["CONFIG", "SET", "appendfsync", "no"]).await;
    assert_eq!(told(&producer.submit(&item("b")).await), (202, not_fsynced()));
    assert_eq!(told(&producer.call("GET", "b").await), (202, not_fsynced()));
    redis.command(&["CONFIG", "SET", "appendfsync", "always"]).await;
    assert_eq!(told(&producer.submit(&item("b")).await), (200, fsynced()));
    // And from now on not at all.
    redis.command(&["CONFIG", "SET", "appendonly", "no"]).await;
    let refused = producer.submit(&item("c")).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "durability-unavailable"));
    assert_eq!(told(&producer.call("GET", "b").await), (202, not_fsynced()));
    assert_eq!(producer.call("GET", "c").await.status, 404, "nothing was written");
}

#[tokio::test]
async fn a_redis_killed_right_after_its_answers_keeps_all_that_was_told_as_fsynced() {
    let redis = RedisServer::recent(|_| {}).await;
    let producer = std::sync::Arc::new(Producer::start(&redis, "", FSYNCED).await);
    let mut accepted = Vec::new();
    for round in 0..8 {
        let mut submits = JoinSet::new();
        for number in 0..20 {
            let producer = std::sync::Arc::clone(&producer);
            submits.spawn(async move {
                let id = format!("{round}-{number}");
                let answer = producer.submit(&item(&id)).await;
                (told(&answer) == (202, fsynced())).then_some(id)
            });
        }
        // The first answers are hardly out.
        while let Some(told) = submits.join_next().await {
            accepted.extend(told.unwrap());
            if submits.len() <= 10 {
                break;
            }
        }
        redis.kill().await;
        accepted.extend(submits.join_all().await.into_iter().flatten());
        redis.restart().await;
        eventually("the producer is back", SOON, async || {
            let answer = producer.call("GET", "nothing").await;
            if answer.status == 404 { Ok(()) } else { Err(answer.text().to_owned()) }
        })
        .await;
    }
    assert!(accepted.len() >= 80, "{}", accepted.len());
    for id in &accepted {
        assert_eq!(producer.call("GET", id).await.status, 200, "{id} was told as fsynced");
    }
}

#[tokio::test]
async fn a_connection_that_is_lost_between_a_write_and_its_wait_starts_over_from_the_read() {
    let (primary, _replica) = pair().await;
    let proxy = Proxy::start(primary.port()).await;
    let producer = Producer::open(&proxy.url(), "", REPLICATED).await;
    eventually("a first submit", SOON, async || {
        let answer = producer.submit(&item("a")).await;
        if told(&answer).1 == replicated() { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    let read = sha_of("read");
    // The script's reply is lost; then the script is answered, and its wait never arrives.
    for (fault, lost) in [(Fault::LoseReply, "EVALSHA"), (Fault::HoldRequest, "WAIT")] {
        proxy.clear();
        let ticks = field(&primary, "tick").await;
        let lost = match lost {
            "WAIT" => proxy.inject(fault, When::Nth(1), command("WAIT")),
            _ => proxy.inject(fault, When::Nth(1), evalsha(&read)),
        };
        let (reads, waits) = (proxy.count(evalsha(&read)), proxy.count(command("WAIT")));
        assert_eq!(told(&producer.call("GET", "a").await), (200, replicated()));
        assert_eq!(lost.fired(), 1);
        assert_eq!(reads.matched(), 2, "the read was sent again");
        assert_eq!(field(&primary, "tick").await, ticks + 2, "with a write of its own");
        assert!((1..=2).contains(&waits.matched()), "{}", waits.matched());
    }
}

#[tokio::test]
async fn without_the_proof_that_one_connection_wrote_and_waited_nothing_is_told_as_reached() {
    let (primary, _replica) = pair().await;
    let proxy = Proxy::start(primary.port()).await;
    let producer = Producer::open(&proxy.url(), "", REPLICATED).await;
    eventually("a first submit", SOON, async || {
        let answer = producer.submit(&item("a")).await;
        if told(&answer).1 == replicated() { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    let plain = value!({"asked": "replicated", "reached": "acknowledged"});
    for word in ["SETNAME", "GETNAME"] {
        proxy.clear();
        let is_it = move |words: &[Vec<u8>]| words.get(1).is_some_and(|it| it == word.as_bytes());
        proxy.inject(Fault::Refuse("NOPERM no permissions".to_owned()), When::Each, is_it);
        assert_eq!(told(&producer.call("GET", "a").await), (202, plain.clone()), "{word}");
    }
}

#[tokio::test]
async fn those_who_ask_during_a_wait_share_the_next_one() {
    let (primary, replica) = pair().await;
    let producer = std::sync::Arc::new(Producer::start(&primary, "", REPLICATED).await);
    assert_eq!(producer.submit(&item("a")).await.status, 202);
    let ticks = field(&primary, "tick").await;
    replica.pause();
    let asked = |producer: &std::sync::Arc<Producer>| {
        let producer = std::sync::Arc::clone(producer);
        async move { told(&producer.call("GET", "a").await) }
    };
    let mut answers = JoinSet::new();
    answers.spawn(asked(&producer));
    blocked(&primary, 1).await;
    for _ in 0..20 {
        answers.spawn(asked(&producer));
    }
    // The first wait runs out; all the others go with the second.
    assert_eq!(answers.join_next().await.unwrap().unwrap(), (202, not_replicated()));
    replica.resume();
    for answer in answers.join_all().await {
        assert_eq!(answer, (200, replicated()));
    }
    assert_eq!(field(&primary, "tick").await, ticks + 2);
}

#[tokio::test]
async fn a_wait_holds_up_no_other_queue_and_a_plain_queue_gains_no_command() {
    let (primary, replica) = pair().await;
    let queues = format!("{REPLICATED}\n[queues.plain]\ntarget = \"http://127.0.0.1:9901\"");
    let producer = Producer::start(&primary, "", &queues).await;
    let plain = format!("{}/v1/queues/plain/requests", producer.base);
    let headers = [("content-type", "application/json")];
    let submit = async |id: &str| producer.http.request("POST", &plain, &headers, item(id)).await;
    eventually("the plain queue is declared", SOON, async || {
        let answer = submit("first").await;
        if answer.status < 300 { Ok(()) } else { Err(answer.text().to_owned()) }
    })
    .await;
    primary.command(&["CONFIG", "RESETSTAT"]).await;
    let answer = submit("a").await;
    assert_eq!((answer.status, json(&answer).get("durability")), (202, None));
    let counts = primary.command_counts().await;
    assert_eq!(counts.get("evalsha"), Some(&1), "{counts:?}");
    for name in ["wait", "waitaof", "client|setname"] {
        assert_eq!(counts.get(name), None, "{counts:?}");
    }

    replica.pause();
    let waited = item("b");
    let waiting = async { (producer.submit(&waited).await, Instant::now()) };
    let beside = async {
        blocked(&primary, 1).await;
        for id in ["b", "c", "d"] {
            assert_eq!(submit(id).await.status, 202);
        }
        Instant::now()
    };
    let ((waited, told_at), done_at) = tokio::join!(waiting, beside);
    assert_eq!(told(&waited), (202, not_replicated()));
    assert!(done_at < told_at, "they waited for its replica too");
    replica.resume();
}

#[tokio::test]
async fn the_items_of_a_batch_share_their_waits() {
    let (primary, replica) = pair().await;
    let producer = Producer::start(&primary, "", REPLICATED).await;
    let url = format!("{}/v1/queues/q/batch", producer.base);
    let headers = [("content-type", "application/x-ndjson")];
    let lines = async |ids: std::ops::Range<usize>| {
        let body: String = ids.map(|id| item(&id.to_string()) + "\n").collect();
        let answer = producer.http.request("POST", &url, &headers, body).await;
        assert_eq!(answer.status, 207, "{}", answer.text());
        let lines = answer.text().lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<Value>>()
    };
    for line in lines(0..300).await {
        assert_eq!((&line["status"], &line["durability"]), (&value!(202), &replicated()));
    }
    let ticks = field(&primary, "tick").await;
    assert!(ticks < 100, "{ticks} waits for 300 items");
    replica.pause();
    let told = lines(299..301).await;
    let states: Vec<_> = told.iter().map(|it| (&it["status"], &it["durability"])).collect();
    let low = not_replicated();
    assert_eq!(states, [(&value!(202), &low), (&value!(202), &low)]);
    assert_eq!(told[0]["replayed"], true);
    replica.resume();
}

#[tokio::test]
async fn a_script_that_redis_forgot_is_sent_whole_and_waited_for() {
    let redis = RedisServer::recent(|it| it.appendfsync = AppendFsync::Always).await;
    let producer = Producer::start(&redis, "", FSYNCED).await;
    assert_eq!(producer.submit(&item("a")).await.status, 202);
    redis.command(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(told(&producer.call("GET", "a").await), (200, fsynced()));
}

#[tokio::test]
async fn a_waited_submit_answers_with_its_result_once_that_is_safe() {
    let redis = RedisServer::recent(|it| it.appendfsync = AppendFsync::Always).await;
    let producer = Producer::start(&redis, "", FSYNCED).await;
    let hand = Hand::on(&redis);
    let first = item("a");
    let (answer, ()) = tokio::join!(
        producer.submit_with(&[("prefer", "wait=20")], &first),
        hand.answer(200, b"done")
    );
    assert_eq!((answer.status, &answer.body[..]), (200, &b"done"[..]), "{}", answer.text());
    let waited = producer.submit_with(&[("prefer", "wait=1")], &item("b")).await;
    assert_eq!(told(&waited), (202, fsynced()));
    assert_eq!(waited.header("preference-applied"), Some("wait=1"));
    let early = producer.call("GET", "b/result").await;
    assert_eq!(told(&early), (202, fsynced()), "as safe as asked, and not ended");
}

#[tokio::test]
async fn of_another_generation_than_the_one_that_is_meant_nothing_is_told_however_safe_it_is() {
    let (primary, replica) = pair().await;
    let producer = Producer::start(&primary, "", REPLICATED).await;
    assert_eq!(producer.submit(&item("a")).await.status, 202);
    replica.pause();
    let own = json(&producer.call("GET", "a").await)["generation"].as_str().unwrap().to_owned();
    for (generation, status) in [(own.as_str(), 202), ("0123456789abcdef", 404)] {
        for path in
            [format!("a?generation={generation}"), format!("a/result?generation={generation}")]
        {
            assert_eq!(producer.call("GET", &path).await.status, status, "{path}");
        }
    }
    replica.resume();
}

#[tokio::test]
async fn a_server_without_waitaof_refuses_fsynced() {
    let Some(binary) = old_server() else {
        let why = "no Redis older than 7.2 was found at /usr/bin/redis-server";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("SKIPPED, NOT TESTED: {why}");
        return;
    };
    let redis = RedisServer::with(|it| it.binary = binary).await;
    let producer = Producer::start(&redis, "", FSYNCED).await;
    let refused = producer.submit(&item("a")).await;
    assert_eq!((refused.status, problem(&refused).as_str()), (503, "durability-unavailable"));
    let detail = json(&refused)["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("older than WAITAOF"), "{detail}");
    assert_eq!(producer.call("GET", "a").await.status, 404, "nothing was written");
}

/// A server that a Debian brings along and that has no WAITAOF.
fn old_server() -> Option<std::path::PathBuf> {
    let path = std::path::PathBuf::from("/usr/bin/redis-server");
    let said = std::process::Command::new(&path).arg("--version").output().ok()?;
    let said = String::from_utf8(said.stdout).ok()?;
    let version = said.split(" v=").nth(1)?.split_whitespace().next()?;
    let mut parts = version.split('.').map(str::parse::<u64>);
    let version = (parts.next()?.ok()?, parts.next()?.ok()?);
    (version < (7, 2)).then_some(path)
}
