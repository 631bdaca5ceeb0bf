//! Requests whose end two readers could find in two places: none of them brings a second one in.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Producer;

/// Nobody listens there: nothing can be stored.
const NOWHERE: &str = "redis://127.0.0.1:1";

/// What must never be answered as a request of its own, unless it is one for everybody.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

/// An item that is refused by itself, without Redis.
const ITEM: &str = "{\"id\":\"a/b\",\"payload\":1}";

/// Sends bytes, says that no more come, and reads all that comes back: the status of each answer, and whether the connection
/// was closed by the other side.
async fn statuses(producer: &Producer, bytes: &[u8]) -> (Vec<u16>, String) {
    let address = producer.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut told = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut told)).await;
    // A reset ends it as well.
    drop(read.expect("the producer closes the connection"));
    let told = String::from_utf8_lossy(&told).into_owned();
    let status = |rest: &str| rest.get(..3).and_then(|it| it.parse().ok());
    let all = told.split("HTTP/1.1 ").skip(1).filter_map(status);
    (all.collect(), told)
}

fn request(headers: &str, body: &str) -> String {
    format!(
        "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         {headers}\r\n\r\n{body}"
    )
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

async fn without_redis() -> Producer {
    Producer::open(NOWHERE, "body_timeout = \"1s\"", "").await
}

#[tokio::test]
async fn a_request_that_says_its_length_in_two_ways_brings_no_second_one_in() {
    let producer = without_redis().await;
    let (length, hidden) = (ITEM.len(), chunked(ITEM) + SMUGGLED);
    let cases: Vec<(String, String)> = vec![
        (format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"), hidden.clone()),
        ("Content-Length: 4\r\nTransfer-Encoding: chunked".into(), hidden.clone()),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4".into(), hidden.clone()),
        (format!("Content-Length: {length}\r\nContent-Length: 0"), format!("{ITEM}{SMUGGLED}")),
        (format!("Content-Length: 0\r\nContent-Length: {length}"), format!("{ITEM}{SMUGGLED}")),
        (format!("Content-Length: {length}, {length}"), format!("{ITEM}{SMUGGLED}")),
        (format!("Content-Length: +{length}"), format!("{ITEM}{SMUGGLED}")),
        (format!("Content-Length: {length} 1"), format!("{ITEM}{SMUGGLED}")),
        ("Content-Length: -1".into(), format!("{ITEM}{SMUGGLED}")),
        ("Content-Length: 0x10".into(), format!("{ITEM}{SMUGGLED}")),
        ("Content-Length: 18446744073709551616".into(), format!("{ITEM}{SMUGGLED}")),
        (format!("Content-Length : {length}"), format!("{ITEM}{SMUGGLED}")),
        ("Transfer-Encoding : chunked".into(), hidden.clone()),
        ("Transfer-Encoding:\r\n chunked".into(), hidden),
    ];
    for (headers, body) in cases {
        let (answers, told) = statuses(&producer, request(&headers, &body).as_bytes()).await;
        assert_eq!(answers, [400], "{headers}: {told}");
    }
}

#[tokio::test]
async fn a_body_in_another_coding_than_chunks_is_refused_and_its_connection_closed() {
    let producer = without_redis().await;
    for coding in [
        "chunked, chunked",
        "gzip, chunked",
        "gzip,chunked",
        "identity, chunked",
        "chunked, identity",
        "identity",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "\u{b}chunked",
        "",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nTransfer-Encoding: identity",
        "gzip\r\nTransfer-Encoding: chunked",
    ] {
        let body = chunked(ITEM) + SMUGGLED;
        let request = request(&format!("Transfer-Encoding: {coding}"), &body);
        let (answers, told) = statuses(&producer, request.as_bytes()).await;
        assert_eq!(answers, [400], "{coding:?}: {told}");
        assert!(!told.contains("invalid-id"), "{coding:?} was read: {told}");
    }
    // One that is as it should be is read, and so is what follows.
    for coding in ["chunked", "Chunked"] {
        let body = chunked(ITEM) + SMUGGLED;
        let request = request(&format!("Transfer-Encoding: {coding}"), &body);
        let (answers, told) = statuses(&producer, request.as_bytes()).await;
        assert_eq!(answers, [400, 404], "{told}");
        assert!(told.contains("invalid-id"), "{told}");
    }
}

#[tokio::test]
async fn chunks_that_lie_end_their_connection() {
    let producer = without_redis().await;
    let size = ITEM.len();
    for chunks in [
        format!("-1\r\n{ITEM}"),
        format!("0x{size:x}\r\n{ITEM}\r\n0\r\n\r\n"),
        format!("{size:x}\n{ITEM}\n0\n\n"),
        format!("{size:x};a=\"\r\n\r\n\"\r\n{ITEM}\r\n0\r\n\r\n"),
        format!("1000000000000000{size:x}\r\n{ITEM}\r\n0\r\n\r\n"),
        format!("{:x}\r\n{ITEM}\r\n0\r\n\r\n", size - 1),
        format!("{:x}\r\n{ITEM}\r\n0\r\n\r\n", size + 1),
    ] {
        let request = request("Transfer-Encoding: chunked", &(chunks.clone() + SMUGGLED));
        let (answers, told) = statuses(&producer, request.as_bytes()).await;
        assert_eq!(answers, [400], "{chunks}: {told}");
    }
    // What stands behind the last chunk is no header of this request or of the next.
    let trailers = "0\r\nHost: evil\r\nContent-Length: 5\r\nAuthorization: x\r\n\r\n";
    let body = format!("{size:x}\r\n{ITEM}\r\n{trailers}{SMUGGLED}");
    let (answers, told) =
        statuses(&producer, request("Transfer-Encoding: chunked", &body).as_bytes()).await;
    assert_eq!(answers, [400, 404], "{told}");
}

#[tokio::test]
async fn what_is_no_request_is_refused_once_and_nothing_behind_it_is_read() {
    let producer = without_redis().await;
    let many: String = (0..100_000).map(|at| format!("h{at}: v\r\n")).collect();
    let long = "a".repeat(1 << 20);
    for (head, expected) in [
        ("GET / HTTP/1.1\rHost: x\r\r".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\rc: d\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\0\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n Host: x\r\n\r\n".to_owned(), 400),
        ("GET /\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.2\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/2.0\r\nHost: x\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n"), 431),
        (format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"), 431),
        ("\r\n".repeat(100_000), 431),
    ] {
        let bytes = head.clone() + SMUGGLED;
        let (answers, told) = statuses(&producer, bytes.as_bytes()).await;
        // A reset may come before the answer is read, where much was left to read.
        assert!(answers.iter().all(|it| *it == expected) && answers.len() < 2, "{told}");
        assert!(answers.len() == 1 || head.len() > 10_000, "{head}: {told}");
    }
}
