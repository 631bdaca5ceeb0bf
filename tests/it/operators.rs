//! Operators' calls through a producer: the tool speaks to it, and it notes who did what.

use holdfast_testkit::{RedisServer, eventually, free_port};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::cli::ctl;
use crate::fleet::{Fleet, SOON, Setup};

/// A fleet, and where its producer takes operators' calls.
async fn with_operators(setup: Setup) -> (Fleet, String) {
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let operators = fleet.operators().await;
    (fleet, operators)
}

/// What the tool prints as JSON, asked of the producer.
async fn told(operator: &str, arguments: &[&str]) -> Value {
    let whole = [arguments, &["--operator", operator, "--output", "json"]].concat();
    ctl(&whole).await.exited(0).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_means_the_same_by_a_producer_as_by_redis() {
    let (fleet, operator) = with_operators(Setup::default()).await;
    for id in ["a", "b"] {
        fleet.submit(id, "{\"content\":\"x\"}").await;
    }
    let url = fleet.redis.url().to_owned();
    for arguments in [
        vec!["queue", "ls"],
        vec!["lease", "ls"],
        vec!["worker", "ls"],
        vec!["dead", "ls"],
        vec!["why", "b", "--queue", "q"],
        vec!["queue", "pause", "q", "--dry-run"],
        vec!["queue", "limit", "q", "9", "--dry-run"],
    ] {
        let by_producer = told(&operator, &arguments).await;
        let straight = [&arguments[..], &["--redis", &url, "--output", "json"]].concat();
        let mut straight = ctl(&straight).await.exited(0).json();
        // What it suggests goes the way that it was asked by.
        if let Some(suggestion) = straight["suggestion"].as_str() {
            let way = format!("--redis {url}");
            assert!(suggestion.contains(&way), "{suggestion}");
            straight["suggestion"] =
                suggestion.replace(&way, &format!("--operator {operator}")).into();
        }
        assert_eq!(without_ages(by_producer), without_ages(straight), "{arguments:?}");
    }
    let why = ctl(&["why", "a", "--queue", "q", "--operator", &operator]).await.exited(0);
    assert!(why.text().contains("no worker is there"), "{}", why.text());
    let unknown = ctl(&["retry-now", "a", "--queue", "q", "--operator", &operator]).await.exited(1);
    assert!(unknown.stderr.contains("not-applicable (409)"), "{}", unknown.stderr);
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let nobody = ctl(&["queue", "ls", "--operator", &nobody]).await.exited(1);
    assert!(nobody.stderr.contains("can't connect"), "{}", nobody.stderr);
}

/// The same without what moves by itself from one look to the next.
fn without_ages(mut value: Value) -> Value {
    match &mut value {
        Value::Array(rows) => rows.iter_mut().for_each(|row| *row = without_ages(row.take())),
        Value::Object(members) => {
            members.retain(|name, _| !name.starts_with("head_") && !name.ends_with("_ago"));
            members.values_mut().for_each(|member| *member = without_ages(member.take()));
        }
        _ => {}
    }
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn each_action_leaves_one_audit_line_whatever_the_filter_says() {
    // Not even the target of the line is in it.
    let more = "[log]\nfilter = \"error,holdfast_producer=info\"".to_owned();
    let queue = "max_attempts = 1".to_owned();
    let (fleet, operator) = with_operators(Setup { more, queue, ..Setup::default() }).await;
    fleet
        .gateway
        .script(vec![holdfast_testkit::stand_in::Rule::new().cut_after(0)])
        .expect("rules");
    let mut worker = fleet.worker();
    fleet.submit("a", "{\"content\":\"PROMPT-MARK\"}").await;
    assert_eq!(fleet.result("a").await.0, "gave-up");
    assert!(worker.process.terminate().await.success());
    told(&operator, &["queue", "pause", "q", "--dry-run"]).await;
    told(&operator, &["queue", "pause", "q"]).await;
    told(&operator, &["queue", "limit", "q", "3"]).await;
    let done = told(&operator, &["dead", "redrive", "--all", "--queue", "q", "--yes"]).await;
    assert_eq!((&done["outcome"], &done["redriven"]), (&"done".into(), &1.into()));
    ctl(&["lease", "release", "a", "--queue", "q", "--operator", &operator]).await.exited(1);

    let lines = || {
        let output = fleet.producers_output();
        let events = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["target"] == "audit").collect::<Vec<_>>()
    };
    eventually("four lines", SOON, async || match lines().len() {
        4 => Ok(()),
        count => Err(format!("{count} lines")),
    })
    .await;
    let said: Vec<[String; 6]> = lines()
        .iter()
        .map(|line| {
            ["action", "who", "filter", "matched", "changed", "outcome"]
                .map(|name| line[name].to_string().trim_matches('"').to_owned())
        })
        .collect();
    let expected = [
        ["pause", "anybody", "all shards", "1", "1", "set"],
        ["limit", "anybody", "all shards limit=3", "1", "1", "set"],
        ["redrive", "anybody", "all", "1", "1", "done"],
        ["release", "anybody", "id=a tenant=default", "1", "0", "not-applicable"],
    ];
    assert_eq!(said, expected.map(|line| line.map(str::to_owned)));
    assert!(!fleet.producers_output().contains("PROMPT-MARK"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_did_not_spread_a_reclaimer_carries_on() {
    let setup = Setup { queue: "shards = 4".to_owned(), ..Setup::default() };
    let (fleet, operator) = with_operators(setup).await;
    told(&operator, &["queue", "pause", "q"]).await;
    // As if the one who paused it had died after the first shard.
    for shard in 1..4 {
        let meta = format!("hf1:{{q/{shard}}}:meta");
        fleet.redis.command(&["HDEL", &meta, "paused", "paused_version"]).await;
    }
    let reclaimer = fleet.reclaimer();
    fleet.ready(reclaimer.ops).await;
    eventually("every shard is paused", SOON, async || {
        for shard in 1..4 {
            let meta = format!("hf1:{{q/{shard}}}:meta");
            let paused = fleet.redis.command(&["HGET", &meta, "paused"]).await;
            if paused.text() != Some("1") {
                return Err(format!("shard {shard} is not"));
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_reach_is_refused_for_operators_without_keys() {
    let producer = "operator_listen = \"0.0.0.0:0\"\nallow_anonymous = true".to_owned();
    let setup = Setup { producer, ..Setup::default() };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let mut role = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    assert_eq!(role.process.wait(SOON).await.code(), Some(64));
    let output = role.process.output();
    assert!(
        output.contains("producer.operator_listen") && output.contains("keys_file"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_a_running_holdfast_well_and_a_broken_one_not() {
    let (fleet, _operator) = with_operators(Setup::default()).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    fleet.ready(reclaimer.ops).await;
    for number in 0..20 {
        fleet.submit(&format!("r{number}"), "{\"content\":\"x\"}").await;
    }
    assert_eq!(fleet.result("r19").await.0, "answered");
    let url = fleet.redis.url();
    let well = ctl(&["doctor", "--redis", url, "--output", "json"]).await.exited(0);
    let grades: Vec<Value> = well.json()["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|finding| finding["grade"].clone())
        .collect();
    assert!(grades.iter().all(|grade| *grade == "note"), "{}", well.text());
    assert_eq!(well.json()["requests"], 20);
    fleet.redis.command(&["HINCRBY", "hf1:{q/0}:meta", "bytes", "7"]).await;
    let broken = ctl(&["doctor", "--redis", url]).await.exited(3);
    assert!(broken.text().contains("bytes-counter"), "{}", broken.text());
    ctl(&["doctor", "--redis", url, "--queue", "nowhere"]).await.exited(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_in_redis_keeps_nobody_from_pausing_and_is_told_as_that() {
    let (fleet, operator) = with_operators(Setup::default()).await;
    fleet.submit("a", "{\"content\":\"x\"}").await;
    let pending = "hf1:{q/0}:pending";
    let ways = [["--operator", operator.as_str()], ["--redis", fleet.redis.url()]];
    for score in ["-inf", "1e300"] {
        fleet.redis.command(&["ZADD", pending, score, "x"]).await;
        for way in ways {
            for command in ["pause", "resume"] {
                ctl(&[&["queue", command, "q"][..], &way].concat()).await.exited(0);
            }
            ctl(&[&["queue", "ls"][..], &way].concat()).await.exited(0);
        }
    }
    fleet.redis.command(&["DEL", pending]).await;
    fleet.redis.command(&["SET", pending, "junk"]).await;
    for way in ways {
        ctl(&[&["queue", "pause", "q"][..], &way].concat()).await.exited(0);
    }
    for command in [&["queue", "ls"][..], &["why", "a", "--queue", "q"]] {
        let ran = ctl(&[command, &ways[0]].concat()).await.exited(1);
        assert!(ran.stderr.contains("internal (500)"), "{}", ran.stderr);
        assert!(ran.stderr.contains("holdfastctl doctor"), "{}", ran.stderr);
    }
    ctl(&[&["queue", "resume", "q"][..], &ways[0]].concat()).await.exited(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_who_leaves_does_not_take_the_line_of_the_action_along() {
    let queue = "max_attempts = 1".to_owned();
    let (fleet, operator) = with_operators(Setup { queue, ..Setup::default() }).await;
    fleet
        .gateway
        .script(vec![holdfast_testkit::stand_in::Rule::new().cut_after(0)])
        .expect("rules");
    let mut worker = fleet.worker();
    for number in 0..50 {
        fleet.submit(&format!("r{number}"), "{\"content\":\"x\"}").await;
    }
    fleet.wait_for_count("dead", 50, SOON).await;
    assert!(worker.process.terminate().await.success());
    let url = format!("{operator}/v1/ops/queues/q/dead/redrive");
    let json = [("content-type", "application/json")];
    let count = serde_json::json!({"all": true, "dry_run": true}).to_string();
    let counted = fleet.http.request("POST", &url, &json, count).await;
    let counted: Value = serde_json::from_slice(&counted.body).expect("what was counted");
    let body = serde_json::json!({"all": true, "count": 50, "as_of": counted["as_of"], "rate": 10});
    let body = body.to_string();
    let address = operator.strip_prefix("http://").expect("an address");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /v1/ops/queues/q/dead/redrive HTTP/1.1\r\nHost: {address}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("it is sent");
    eventually("some run again", SOON, async || {
        let dead = fleet.count("dead").await;
        if dead < 50 { Ok(()) } else { Err(dead) }
    })
    .await;
    drop(stream);
    let lines = || {
        let output = fleet.producers_output();
        let events = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["target"] == "audit").collect::<Vec<_>>()
    };
    eventually("a line", SOON, async || if lines().is_empty() { Err("none") } else { Ok(()) })
        .await;
    let said = lines();
    assert_eq!((said.len(), &said[0]["action"]), (1, &"redrive".into()), "{said:?}");
    // What it says is what happened.
    let dead = fleet.count("dead").await;
    assert_eq!(said[0]["changed"], 50 - dead, "{said:?}");
}
