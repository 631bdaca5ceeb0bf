//! The ops port as a probe and a scraper see it.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

/// Long enough for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a port answers to a request line without body.
pub(crate) async fn ask(address: SocketAddr, line: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!("{line} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut told = String::new();
    timeout(PATIENCE, socket.read_to_string(&mut told)).await.unwrap().unwrap();
    told
}

/// An ops port, served until the set is dropped.
async fn served(health: &Health) -> (SocketAddr, JoinSet<io::Result<()>>) {
    let (address, ops) =
        open("worker.ops_listen", "127.0.0.1:0".parse().unwrap(), health.clone()).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(ops.run());
    (address, tasks)
}

#[tokio::test]
async fn liveness_is_the_processs_and_readiness_says_why_not() {
    let health = Health::default();
    let redis = health.part("redis");
    let (address, _tasks) = served(&health).await;

    let started = Instant::now();
    assert!(ask(address, "GET /livez").await.starts_with("HTTP/1.1 200"));
    // It waits for nobody: Redis never becomes ready here by itself.
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    let told = ask(address, "GET /readyz").await;
    assert!(told.starts_with("HTTP/1.1 503"), "{told}");
    let body = r#"{"reasons":{"redis":"starting"},"status":"not-ready"}"#;
    assert!(told.ends_with(body), "{told}");

    redis.ready();
    let told = ask(address, "GET /readyz").await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(told.ends_with(r#"{"reasons":{},"status":"ready"}"#), "{told}");
}

#[tokio::test]
async fn a_probe_that_does_not_say_its_host_once_is_refused() {
    let (address, _tasks) = served(&Health::default()).await;
    for hosts in ["", "host: h\r\nhost: h\r\n"] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let head = format!("GET /livez HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut told = String::new();
        timeout(PATIENCE, socket.read_to_string(&mut told)).await.unwrap().unwrap();
        assert!(told.starts_with("HTTP/1.1 400"), "{hosts:?}: {told}");
        assert!(told.contains("/problems/invalid-header"), "{hosts:?}: {told}");
    }
}

#[tokio::test]
async fn metrics_are_told_with_those_of_the_process() {
    let (address, _tasks) = served(&Health::default()).await;
    metrics::build_info("0.0.0-test", 1);
    let told = ask(address, "GET /metrics").await;
    assert!(told.contains("content-type: text/plain; version=0.0.4"), "{told}");
    for line in ["holdfast_build_info{version=\"0.0.0-test\",schema=\"1\"} 1", "process_open_fds "]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_as_a_problem_and_repeats_nothing() {
    let (address, _tasks) = served(&Health::default()).await;
    for (line, status, kind) in
        [("GET /S3CRET", "404", "not-found"), ("POST /livez", "405", "method-not-allowed")]
    {
        let told = ask(address, line).await;
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{told}");
        assert!(told.contains(&format!("\"type\":\"/problems/{kind}\"")), "{told}");
        assert!(told.contains("content-type: application/problem+json"), "{told}");
        assert!(told.contains("x-content-type-options: nosniff"), "{told}");
        assert!(!told.contains("S3CRET"), "{told}");
    }
    assert!(ask(address, "HEAD /livez").await.starts_with("HTTP/1.1 200"));
}
