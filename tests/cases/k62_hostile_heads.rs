//! K62: heads of answers that no server should send.
//!
//! A header that is no ASCII stops a client that is sure of text; two lengths, or a length and a framing, are read one way
//! here and another there.

use std::time::Duration;

use serde_json::Value;

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

const BODY: &str = "{\"content\":\"fine\"}";

fn with_headers(headers: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}\r\n\r\n{BODY}", BODY.len());
    [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", headers, length.as_bytes()].concat()
}

/// What is merely strange is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_no_ascii_is_taken_and_harms_nobody() {
    let _shared = beside_others().await;
    let elsewhere = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\xc3\xa9\xe9\r\nContent-Length: 0\r\n\r\n";
    let cases = [
        ("note", with_headers(b"X-Note: caf\xe9\r\n"), "200", BODY),
        ("kept", with_headers(b"X-Request-Id: \xff\xfe\r\nRetry-After: \xe9\r\n"), "200", BODY),
        ("elsewhere", elsewhere.to_vec(), "302", ""),
    ];
    let answers = cases.clone().map(|(name, bytes, ..)| (name, Answer::raw(bytes)));
    let (fleet, gateway, ids) = stage::answering(Setup::default(), answers).await;
    let worker = fleet.worker();
    for (id, _, status, body) in cases {
        let (outcome, result) = fleet.result(id).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", body), "{id}");
        assert_eq!(result.header("holdfast-status"), Some(status), "{id}: nothing is followed");
        assert_eq!(gateway.arrivals_of(&stage::mark(id)).len(), 1, "{id}");
    }
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// What can be read in two ways, or in none, is a failure; its connection is not used again, and its slot is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_cannot_be_trusted_is_a_failure_and_its_connection_is_left() {
    let _shared = beside_others().await;
    let many: Vec<u8> =
        (0..200).flat_map(|number| format!("X-H{number}: vvvvvvvv\r\n").into_bytes()).collect();
    let big = format!("X-Big: {}\r\n", "v".repeat(70_000));
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    let answers: [(&str, Answer); 7] = [
        (
            "two-lengths",
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\n{}xyz"),
        ),
        ("length-and-framing", Answer::raw(both)),
        ("many-headers", Answer::raw(with_headers(&many))),
        ("big-header", Answer::raw(with_headers(big.as_bytes()))),
        ("bad-status", Answer::raw("HTTP/1.1 2000 Huh\r\nContent-Length: 0\r\n\r\n")),
        ("no-http", Answer::raw("SSH-2.0-demo\r\n")),
        (
            "bad-name",
            Answer::raw("HTTP/1.1 200 OK\r\nX Bad Name: 1\r\nContent-Length: 2\r\n\r\n{}"),
        ),
    ];
    // One slot: one that got stuck would hold up all others.
    let worker = stage::worker(1, Duration::from_secs(15));
    let setup = Setup { worker, queue: "max_attempts = 2".to_owned(), ..Setup::default() };
    let (fleet, gateway, ids) = stage::answering(setup, answers).await;
    let worker = fleet.worker();
    for id in &ids {
        let (outcome, result) = fleet.result(id).await;
        assert_eq!(outcome, "gave-up", "{id}");
        let problem: Value = serde_json::from_slice(&result.body).expect("a problem");
        assert_eq!(problem["last_failure"]["code"], "malformed-head", "{id}: {problem}");
    }
    let mut peers: Vec<u16> = gateway.arrivals().iter().map(|arrival| arrival.peer).collect();
    peers.sort_unstable();
    peers.dedup();
    assert_eq!(peers.len(), 2 * ids.len(), "each attempt has a connection of its own");
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
