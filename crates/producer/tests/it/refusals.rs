//! What is refused before Redis is asked: so none is needed, and nothing can be stored.

use std::time::{Duration, Instant};

use holdfast_testkit::http::Answer;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Producer, SOON, json, problem, unix_now};

/// Nobody listens there.
const NOWHERE: &str = "redis://127.0.0.1:1";

async fn without_redis() -> Producer {
    Producer::open(NOWHERE, "body_timeout = \"1s\"", "body_limit = \"1KiB\"").await
}

#[tokio::test]
async fn a_time_that_cannot_be_used_is_refused_with_its_field() {
    let producer = without_redis().await;
    let now = unix_now();
    let in_ms = (now * 1000 + 30_000).to_string();
    let in_us = ((now + 30) * 1_000_000).to_string();
    let values = [
        in_ms.as_str(),
        in_us.as_str(),
        "0",
        "-1",
        "-9007199254740993",
        "9007199254740991",
        "9007199254740993",
        "9223372036854775807",
        "18446744073709551616",
        "1e3",
        "1.9e9",
        "2000000000.75",
        "2000000000.0",
        "1e308",
        "1e400",
        r#""2000000000""#,
        r#""2033-05-18T03:33:20Z""#,
        r#""soon""#,
        "null",
        "true",
        "[2000000000]",
        "{}",
    ];
    for value in values {
        let body = format!(r#"{{"id":"k24","deadline":{value},"payload":{{}}}}"#);
        let answer = producer.submit(&body).await;
        let told = json(&answer);
        assert_eq!((answer.status, &told["field"]), (400, &"deadline".into()), "{value}: {told}");
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.contains("Unix seconds") && detail.contains("30 days"), "{detail}");
        let hinted = detail.contains("milliseconds");
        assert_eq!(
            hinted,
            value.len() > 11 && value.bytes().all(|it| it.is_ascii_digit()),
            "{value}"
        );
    }
    for value in ["0x77359400", "NaN", "02000000000", "+2000000000"] {
        let body = format!(r#"{{"id":"k24","deadline":{value},"payload":{{}}}}"#);
        let answer = producer.submit(&body).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-item"), "{value}");
        assert_eq!(json(&answer)["line"], 1);
    }
    for value in ["-1", "0", "1e18", r#""0s""#, r#""90""#, r#""31d""#] {
        let answer = producer.submit(&format!(r#"{{"timeout":{value},"payload":1}}"#)).await;
        assert_eq!(
            (answer.status, problem(&answer).as_str()),
            (400, "invalid-deadline"),
            "{value}"
        );
    }
}

#[tokio::test]
async fn a_body_that_is_no_item_is_refused() {
    let producer = without_redis().await;
    let bodies = [
        "",
        r#"{"id":"k53-nan","deadline":2000000000,"payload":{"temperature":NaN}}"#,
        r#"{"id":"k53-inf","deadline":2000000000,"payload":{"temperature":-Infinity}}"#,
        r#"{"id":"k53-none","timeout":"9m"}"#,
        r#"{"id":"k53-null","timeout":"9m","payload":null}"#,
        "[]",
        "null",
        r#""x""#,
        r#"{"id":"k53-trail","deadline":2000000000,"payload":{}} trailing"#,
        r#"{"id":"k53-comma","deadline":2000000000,"payload":{},}"#,
        "{'id':'k53-single'}",
        r#"{"id":"k53-extra","timeout":"9m","payload":{},"unknown":1}"#,
        r#"{"ID":"k53-case","timeout":"9m","payload":{}}"#,
        r#"{"payload":1,"path":"/x"}"#,
        r#"{"payload":1,"headers":{"x-a":"1"}}"#,
        r#"{"payload":1,"payload":1}"#,
    ];
    for body in bodies {
        let answer = producer.submit(body).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-item"), "{body}");
    }
    let deep = format!(r#"{{"payload":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let answer = producer.submit(&deep).await;
    assert_eq!((answer.status, problem(&answer).as_str()), (400, "too-deep"));
}

#[tokio::test]
async fn a_body_that_does_not_say_it_is_json_is_refused() {
    let producer = without_redis().await;
    let url = format!("{}/v1/queues/q/requests", producer.base);
    let headers: [&[(&str, &str)]; 5] = [
        &[],
        &[("content-type", "text/plain")],
        &[("content-type", "application/json; charset=utf-16")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
    ];
    for headers in headers {
        let answer = producer.http.request("POST", &url, headers, r#"{"payload":1}"#).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (415, "unsupported-media-type"));
    }
}

#[tokio::test]
async fn paths_and_methods_that_are_not_there_are_problems() {
    let producer = without_redis().await;
    let call = async |method: &str, path: &str| {
        producer.http.request(method, &format!("{}{path}", producer.base), &[], "").await
    };
    for path in ["/", "/v1", "/v1/", "/v2/queues", "/healthz", "//v1/queues", "/v1/queues/"] {
        let answer = call("GET", path).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (404, "not-found"), "{path}");
    }
    for (method, path, allow) in [
        ("PUT", "/v1/queues/q/requests", "GET,HEAD,POST"),
        ("PUT", "/v1/queues/q/requests/x", "GET,HEAD,DELETE"),
        ("DELETE", "/v1/queues/q/requests/x/result", "GET,HEAD"),
        ("POST", "/v1/queues", "GET,HEAD"),
        ("OPTIONS", "/v1/queues/q/requests", "GET,HEAD,POST"),
    ] {
        let answer = call(method, path).await;
        assert_eq!(
            (answer.status, problem(&answer).as_str()),
            (405, "method-not-allowed"),
            "{method} {path}"
        );
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
    for path in ["/v1/queues/q/requests/x?x=1", "/v1/queues/q/requests/x?wait=1", "/v1/queues?x"] {
        let answer = call("GET", path).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-query"), "{path}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_announced_or_not() {
    let producer = without_redis().await;
    let long = format!(r#"{{"payload":"{}"}}"#, "x".repeat(1024));
    let answer = producer.submit(&long).await;
    assert_eq!((answer.status, problem(&answer).as_str()), (413, "body-too-large"));
    assert_eq!(json(&answer)["limit"], 1024);

    let head = head("Transfer-Encoding: chunked");
    let told = raw(&producer, &[head.as_bytes(), b"800\r\n", &[b'x'; 0x800]]).await;
    assert!(told.starts_with("HTTP/1.1 413 "), "{told}");
    assert!(told.contains("/problems/body-too-large"), "{told}");
}

#[tokio::test]
async fn a_body_that_does_not_end_is_given_up_with_a_problem() {
    let producer = without_redis().await;
    let started = Instant::now();
    let head = head("Content-Length: 1000");
    let told = raw(&producer, &[head.as_bytes(), b"{\"id\":\"k71\""]).await;
    assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
    assert!(told.contains("/problems/request-timeout"), "{told}");
    assert!(started.elapsed() < SOON);
}

fn head(length: &str) -> String {
    format!(
        "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
    )
}

/// Sends parts as they are, and reads until the producer closes.
async fn raw(producer: &Producer, parts: &[&[u8]]) -> String {
    let address = producer.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    for part in parts {
        stream.write_all(part).await.unwrap();
    }
    let mut told = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut told)).await;
    read.expect("the producer closes the connection").unwrap();
    String::from_utf8_lossy(&told).into_owned()
}

#[tokio::test]
async fn a_request_id_is_given_back_if_it_is_clean_and_replaced_if_not() {
    let producer = without_redis().await;
    let url = format!("{}/nowhere", producer.base);
    let given = [("x-request-id", "trace:7")];
    let clean = producer.http.request("GET", &url, &given, "").await;
    assert_eq!(clean.header("x-request-id"), Some("trace:7"));
    let made = producer.http.request("GET", &url, &[], "").await;
    assert!(made.header("x-request-id").is_some_and(|id| id.len() == 36));
    for dirty in [&b"caf\xc3\xa9\xe2\x84\xa2"[..], b"raw-\xff\xfe", b"a b"] {
        let mut request =
            b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: ".to_vec();
        request.extend_from_slice(dirty);
        request.extend_from_slice(b"\r\n\r\n");
        let told = raw(&producer, &[&request]).await;
        assert!(told.starts_with("HTTP/1.1 404 "), "{told}");
        let id = told.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
        assert_eq!(id.len(), 36, "{id}");
    }
}

#[tokio::test]
async fn a_call_that_does_not_say_its_host_once_is_refused() {
    let producer = without_redis().await;
    let told = async |version: &str, hosts: &str| {
        let request = format!("GET /v1/queues/none {version}\r\nConnection: close\r\n{hosts}\r\n");
        raw(&producer, &[request.as_bytes()]).await
    };
    for hosts in ["", "Host: x\r\nHost: x\r\n", "Host: x\r\nHost: y\r\n", "Host: x y\r\n"] {
        let told = told("HTTP/1.1", hosts).await;
        assert!(told.starts_with("HTTP/1.1 400 "), "{hosts:?}: {told}");
        assert!(told.contains("/problems/invalid-header"), "{hosts:?}: {told}");
        assert!(told.contains(r#""header":"host""#), "{hosts:?}: {told}");
    }
    for (version, hosts) in
        [("HTTP/1.1", "Host:\r\n"), ("HTTP/1.0", ""), ("HTTP/1.1", "Host: x\r\n")]
    {
        let told = told(version, hosts).await;
        assert!(told.contains("/problems/unknown-queue"), "{version} {hosts:?}: {told}");
    }
}

#[tokio::test]
async fn no_problem_repeats_what_its_caller_sent() {
    let producer = without_redis().await;
    let mut answers: Vec<Answer> = Vec::new();
    for body in [
        r#"{"MARKER":1,"payload":1}"#,
        r#"{"id":"MARKER/","payload":1}"#,
        r#"{"deadline":"MARKER","payload":1}"#,
        r#"{"payload":MARKER}"#,
        r#"{"payload":1}MARKER"#,
        r#""MARKER""#,
    ] {
        answers.push(producer.submit(body).await);
    }
    answers.push(producer.submit_with(&[("idempotency-key", "MARKER/")], r#"{"payload":1}"#).await);
    let typed = [("content-type", "MARKER/MARKER")];
    let url = format!("{}/v1/queues/q/requests", producer.base);
    answers.push(producer.http.request("POST", &url, &typed, "MARKER").await);
    for path in [
        "/MARKER",
        "/v1/queues/MARKER",
        "/v1/queues/q/requests/MARKER%2F",
        "/v1/queues/q?MARKER=MARKER",
    ] {
        answers
            .push(producer.http.request("GET", &format!("{}{path}", producer.base), &[], "").await);
    }
    for answer in answers {
        assert!(answer.status >= 400, "{answer:?}");
        problem(&answer);
        assert!(!format!("{answer:?}").contains("MARKER"), "{answer:?}");
        let told: Value = json(&answer);
        assert!(!told.to_string().contains("MARKER"), "{told}");
    }
}
