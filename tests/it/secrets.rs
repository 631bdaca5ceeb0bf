//! What callers and gateways say, and what keys say, stays out of logs, metrics, problems and tools.

use holdfast_testkit::stand_in::{Payload, Rule};
use holdfast_testkit::{Process, RedisServer};

use crate::fleet::{Fleet, Setup};

/// Marks that must be seen by nobody but the gateway and the caller.
const MARKS: [&str; 7] = [
    "PROMPT-MARK",
    "ANSWER-MARK",
    "HEADER-MARK",
    "BROKEN-MARK",
    "FIELD-MARK",
    "PATH-MARK",
    "S3CRET",
];

#[tokio::test(flavor = "multi_thread")]
async fn marked_bodies_and_headers_appear_in_no_log_metric_or_problem() {
    let redis = RedisServer::start().await;
    redis.command(&["ACL", "SETUSER", "ad", "on", ">S3CRET1", "~*", "&*", "+@all"]).await;
    let url = format!("redis://ad:S3CRET1@127.0.0.1:{}", redis.port());
    let more = "[log]\nfilter = \"trace\"".to_owned();
    let fleet = Fleet::with(Setup { redis_url: Some(url), more, ..Setup::default() }, redis).await;
    let answer = Rule {
        body: Some(Payload("{\"a\":\"ANSWER-MARK\"}".into())),
        headers: [("x-other".to_owned(), "HEADER-MARK".to_owned())].into(),
        ..Rule::default()
    };
    let broken = Rule {
        raw: Some(Payload("HTTP/1.1 2x0 ANSWER-MARK\r\n\r\n".into())),
        times: Some(1),
        ..Rule::default()
    };
    fleet.gateway.script(vec![broken, answer]).expect("rules");
    let (mut worker, mut reclaimer) = (fleet.worker(), fleet.reclaimer());

    fleet.submit("good", "{\"content\":\"PROMPT-MARK\"}").await;
    let (_, record) = fleet.result("good").await;
    assert!(record.text().contains("ANSWER-MARK"), "the caller gets the answer: {}", record.text());

    let mut said = String::new();
    for body in [
        "{\"payload\": \"BROKEN-MARK",
        "{\"FIELD-MARK\": 1, \"payload\": {}}",
        "{\"id\": \"BROKEN-MARK \\n\", \"payload\": {}}",
        "{\"deadline\": \"BROKEN-MARK\", \"payload\": {}}",
        "BROKEN-MARK",
        "{\"payload\": {}, \"timeout\": \"BROKEN-MARK\"}",
    ] {
        let answer = fleet.post(body).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        said.push_str(answer.text());
    }
    let headers = [
        ("content-type", "HEADER-MARK/x"),
        ("x-request-id", "HEADER MARK"),
        ("authorization", "Bearer HEADER-MARK"),
    ];
    let answer =
        fleet.http.request("POST", &fleet.api("/v1/queues/q/requests"), &headers, "{}").await;
    said.push_str(answer.text());
    for path in [
        "/v1/queues/PATH-MARK/requests",
        "/PATH-MARK",
        "/v1/queues/q/requests/PATH-MARK%00",
        "/v1/queues/q?wait=PATH-MARK",
    ] {
        let answer = fleet.call("GET", path, b"").await;
        assert!(answer.status >= 400, "{path}: {}", answer.status);
        said.push_str(answer.text());
    }

    for (ops, counted) in [
        (fleet.producers_ops()[0], "holdfast_submits_total{"),
        (worker.ops, "holdfast_claims_total{"),
        (reclaimer.ops, "holdfast_build_info{"),
    ] {
        for path in ["metrics", "readyz", "livez"] {
            let answer =
                fleet.http.request("GET", &format!("http://127.0.0.1:{ops}/{path}"), &[], "").await;
            assert!(path != "metrics" || answer.text().contains(counted), "{}", answer.text());
            said.push_str(answer.text());
        }
    }
    let path = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(path.path(), fleet.settings("worker", 1)).expect("settings");
    let check = Process::run(
        env!("CARGO_BIN_EXE_it-holdfastctl"),
        &["check", "--config", path.path().to_str().expect("a path")],
        &[],
    )
    .await;
    said.push_str(&check.stdout);
    said.push_str(&check.stderr);
    for role in [&mut worker, &mut reclaimer] {
        assert!(role.process.terminate().await.success(), "{}", role.process.output());
        said.push_str(&role.process.output());
    }
    said.push_str(&fleet.producers_output());
    assert!(said.contains("127.0.0.1"), "host and port stay visible");
    for mark in MARKS {
        let line = said.lines().find(|line| line.contains(mark));
        assert_eq!(line, None, "{mark} was told");
    }
}
