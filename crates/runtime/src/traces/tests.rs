//! Spans, and their way to a collector that listens, that refuses, and that is not there.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_core::model::{Generation, Handle};
use holdfast_testkit::free_port;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// How long a test waits for what must come.
const SOON: Duration = Duration::from_secs(20);

fn handle() -> Handle {
    Handle::from([7; 32])
}

fn ended(spans: &mut mpsc::Receiver<otlp::Span>, span: Span) -> otlp::Span {
    span.end();
    spans.try_recv().expect("it waits for its export")
}

#[test]
fn nothing_begins_while_traces_are_off() {
    let traces = Traces::default();
    assert!(traces.submit(None).is_none());
    assert!(traces.submit(Some(CALLER)).is_none());
    assert!(traces.attempt(Some(CALLER), &handle(), 1).is_none());
}

#[test]
fn a_submit_goes_on_from_its_caller_and_otherwise_begins_a_trace() {
    let (traces, mut spans) = Traces::begin();
    let child = ended(&mut spans, traces.submit(Some(CALLER)).unwrap());
    let caller = Context::parse(CALLER).unwrap();
    assert_eq!(child.trace_id, caller.trace.to_be_bytes());
    assert_eq!(child.parent_span_id, caller.span.to_be_bytes());
    for without in [None, Some("00-a-b-01")] {
        let root = ended(&mut spans, traces.submit(without).unwrap());
        assert!(root.parent_span_id.is_empty());
        assert_ne!(root.trace_id, child.trace_id);
    }
}

#[test]
fn what_the_caller_does_not_record_nobody_records() {
    let (traces, _spans) = Traces::begin();
    assert!(traces.submit(Some(UNSAMPLED)).is_none());
    assert!(traces.attempt(Some(UNSAMPLED), &handle(), 1).is_none());
    assert!(traces.attempt(None, &handle(), 1).is_none(), "it would be a tree of its own");
}

#[test]
fn each_attempt_is_a_child_of_the_submit_and_linked_to_those_before() {
    let (traces, mut spans) = Traces::begin();
    let submit = traces.submit(None).unwrap();
    let stored = submit.traceparent();
    let submit = ended(&mut spans, submit);
    let mut attempts: Vec<otlp::Span> = Vec::new();
    for number in 1..=3 {
        let attempt = traces.attempt(Some(&stored), &handle(), number).unwrap();
        let passed_on = Context::parse(&attempt.traceparent()).unwrap();
        let attempt = ended(&mut spans, attempt);
        assert_eq!(attempt.trace_id, submit.trace_id);
        assert_eq!(attempt.parent_span_id, submit.span_id);
        assert_eq!(attempt.span_id, passed_on.span.to_be_bytes());
        let linked: Vec<&Vec<u8>> = attempt.links.iter().map(|link| &link.span_id).collect();
        let before: Vec<&Vec<u8>> = attempts.iter().rev().map(|it| &it.span_id).collect();
        assert_eq!(linked, before);
        attempts.push(attempt);
    }
    let many = ended(&mut spans, traces.attempt(Some(&stored), &handle(), 1_000_000).unwrap());
    assert_eq!(many.links.len(), LINKS as usize);
}

#[test]
fn a_span_that_is_dropped_was_never_there_and_one_too_many_is_dropped() {
    let (traces, mut spans) = Traces::begin();
    drop(traces.submit(None));
    assert!(spans.try_recv().is_err());
    for _ in 0..=WAITING {
        traces.submit(None).unwrap().end();
    }
    assert_eq!(spans.len(), WAITING);
}

#[test]
fn a_span_with_an_error_counts_as_failed() {
    let (traces, mut spans) = Traces::begin();
    let mut span = traces.submit(None).unwrap();
    span.tell(Attribute::Status(200));
    assert_eq!(span.told.status, None);
    span.tell(Attribute::Error("connect"));
    assert_eq!(ended(&mut spans, span).status, Some(Status { code: otlp::ERROR }));
}

/// Takes one call and answers it: what was sent.
async fn taken(listener: &TcpListener, answer: &[u8]) -> Vec<u8> {
    let (mut connection, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    let call = read(&mut connection).await;
    connection.write_all(answer).await.unwrap();
    call
}

/// Reads one call: its body.
async fn read(connection: &mut TcpStream) -> Vec<u8> {
    let mut call = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = timeout(SOON, connection.read(&mut part)).await.unwrap().unwrap();
        assert!(count > 0, "a whole call");
        call.extend_from_slice(&part[..count]);
        let Some(end) = call.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(call[..end].to_vec()).unwrap().to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let body = &call[end + 4..];
        if body.len() == length.parse::<usize>().unwrap() {
            return body.to_vec();
        }
    }
}

fn exporter(port: u16) -> (Traces, Exporter) {
    let (traces, ended) = Traces::begin();
    let collector = format!("http://127.0.0.1:{port}/v1/traces").parse().unwrap();
    (traces, Exporter::new(collector, "holdfast-worker", Some("w1"), ended))
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn what_has_ended_comes_to_the_collector_with_what_was_told_of_it() {
    let (listener, port) = listener().await;
    let (traces, exporter) = exporter(port);
    let stop = CancellationToken::new();
    let running = exporter.run(stop.clone());
    let mut span = traces.attempt(Some(CALLER), &handle(), 2).unwrap();
    span.tell(Attribute::Queue(&"q".try_into().unwrap()));
    span.tell(Attribute::Id(&"r-1".try_into().unwrap()));
    span.tell(Attribute::Generation(Generation::from([1; 8])));
    span.tell(Attribute::Attempt(2));
    span.tell(Attribute::Lapses(1));
    span.tell(Attribute::Outcome("retry"));
    span.tell(Attribute::Status(503));
    span.end();
    let call = async {
        let call = taken(&listener, TAKEN).await;
        stop.cancel();
        call
    };
    let ((), call) = tokio::join!(running, call);
    let export = otlp::Export::decode(&*call).unwrap();
    let of = &export.resource_spans[0];
    assert!(
        of.resource
            .clone()
            .unwrap()
            .attributes
            .contains(&KeyValue::text("service.name", "holdfast-worker"))
    );
    let span = &of.scope_spans[0].spans[0];
    assert_eq!((span.name.as_str(), span.kind), ("attempt", 3));
    assert_eq!(span.attributes.len(), 7);
    assert!(
        span.attributes.contains(&KeyValue::new("http.response.status_code", Value::Number(503)))
    );
    assert!(span.start_time_unix_nano > 0);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
}

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again_with_the_same() {
    let (listener, port) = listener().await;
    let (traces, exporter) = exporter(port);
    let stop = CancellationToken::new();
    let running = exporter.run(stop.clone());
    traces.submit(None).unwrap().end();
    let calls = async {
        let first = taken(&listener, BUSY).await;
        let second = taken(&listener, TAKEN).await;
        stop.cancel();
        (first, second)
    };
    let ((), (first, second)) = tokio::join!(running, calls);
    assert_eq!(first, second);
}

#[tokio::test]
async fn the_end_sends_what_is_left_without_waiting_for_more() {
    let (listener, port) = listener().await;
    let (traces, exporter) = exporter(port);
    for _ in 0..3 {
        traces.submit(None).unwrap().end();
    }
    let stop = CancellationToken::new();
    stop.cancel();
    let ((), call) = tokio::join!(exporter.run(stop), taken(&listener, TAKEN));
    let export = otlp::Export::decode(&*call).unwrap();
    assert_eq!(export.resource_spans[0].scope_spans[0].spans.len(), 3);
}

#[tokio::test]
async fn a_collector_that_is_not_there_or_never_answers_does_not_hold_up_the_end() {
    let (silent, port) = listener().await;
    for port in [free_port(), port] {
        let (traces, exporter) = exporter(port);
        traces.submit(None).unwrap().end();
        let stop = CancellationToken::new();
        stop.cancel();
        timeout(LAST_AND_MORE, exporter.run(stop)).await.expect("it ends");
    }
    drop(silent);
}

/// What the end may wait for, and time to do so.
const LAST_AND_MORE: Duration = Duration::from_secs(5);
