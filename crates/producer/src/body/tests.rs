use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Frame;
use tokio::sync::mpsc;

use super::*;

const LIMIT: usize = 10;

fn memory(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes))
}

/// A body whose parts come when the test sends them.
struct ByHand(mpsc::UnboundedReceiver<&'static str>);

impl hyper::body::Body for ByHand {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(Bytes::from(part)))))
    }
}

/// A body that breaks after its first part.
struct Broken(Option<Bytes>);

impl hyper::body::Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let part = self.0.take().map(Frame::data);
        Poll::Ready(Some(part.ok_or_else(|| std::io::ErrorKind::ConnectionReset.into())))
    }
}

fn in_parts(parts: &[&'static str]) -> Body {
    let (sender, receiver) = mpsc::unbounded_channel();
    for part in parts {
        sender.send(*part).unwrap();
    }
    Body::new(ByHand(receiver))
}

async fn refusal(body: Body, memory: &Arc<Semaphore>) -> Kind {
    read(body, LIMIT, memory).await.unwrap_err().kind()
}

#[tokio::test]
async fn a_body_comes_whole_in_one_part_or_in_many() {
    let memory = memory(100);
    let one = read(Body::from("0123456789"), LIMIT, &memory).await.unwrap();
    let many = read(in_parts(&["01", "2345", "", "6789"]), LIMIT, &memory).await.unwrap();
    let none = read(Body::empty(), LIMIT, &memory).await.unwrap();
    assert_eq!((&one.bytes[..], &many.bytes[..]), (&b"0123456789"[..], &b"0123456789"[..]));
    assert!(none.bytes.is_empty());
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_announced_or_not() {
    let memory = memory(100);
    assert_eq!(refusal(Body::from("0123456789x"), &memory).await, Kind::BodyTooLarge);
    let parts = in_parts(&["01234", "56789", "x"]);
    assert_eq!(refusal(parts, &memory).await, Kind::BodyTooLarge);
    assert_eq!(memory.available_permits(), 100, "a refused body holds no memory");
}

#[tokio::test]
async fn a_body_that_is_cut_is_no_item_and_holds_no_memory() {
    let broken = Broken(Some(Bytes::from_static(b"01")));
    let memory = memory(100);
    assert_eq!(refusal(Body::new(broken), &memory).await, Kind::InvalidItem);
    assert_eq!(memory.available_permits(), 100);
}

#[tokio::test]
async fn memory_is_shared_by_all_bodies_and_given_back_with_each() {
    let memory = memory(12);
    let first = read(Body::from("01234567"), LIMIT, &memory).await.unwrap();
    assert_eq!(memory.available_permits(), 4);
    assert_eq!(refusal(in_parts(&["0123", "4"]), &memory).await, Kind::Overloaded);
    drop(first);
    assert_eq!(memory.available_permits(), 12);
    assert!(read(Body::from("01234567"), LIMIT, &memory).await.is_ok());
}

fn typed(values: &[&'static str]) -> bool {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
    }
    let checked = check_type(&headers);
    checked.inspect_err(|it| assert_eq!(it.kind(), Kind::UnsupportedMediaType)).is_ok()
}

#[test]
fn json_in_utf_8_is_taken() {
    let taken = [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        r#"application/json; charset="utf-8""#,
        "application/json;",
    ];
    for value in taken {
        assert!(typed(&[value]), "{value}");
    }
}

#[test]
fn any_other_type_and_none_at_all_is_refused() {
    let refused = [
        "",
        "text/plain",
        "application/jsonl",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "application/json; charset=latin1",
        "application/json; charset",
        "application/json, text/plain",
    ];
    for value in refused {
        assert!(!typed(&[value]), "{value}");
    }
    assert!(!typed(&[]));
    assert!(!typed(&["application/json", "application/json"]), "which one would count?");
}

#[test]
fn a_compressed_body_is_refused() {
    let with = |encoding: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        check_type(&headers).is_ok()
    };
    assert!(with("identity"));
    assert!(!with("gzip"));
    assert!(!with("identity, gzip"));
}
