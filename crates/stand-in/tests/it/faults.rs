use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_stand_in::{How, Rule, StandIn};
use hyper::{Method, Version};

use crate::client::{Bare, CHAT, SOON, body_of, call_by, post, scripted};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// How the arrivals ended, with the length of what was given.
fn ends(it: &StandIn) -> Vec<(How, usize)> {
    let ends = it.arrivals().into_iter().filter_map(|arrival| arrival.end);
    ends.map(|end| (end.how, end.answer.len())).collect()
}

#[tokio::test]
async fn a_status_comes_with_its_headers_and_openais_error_object() {
    let it = scripted(vec![Rule::new().status(429).header("retry-after", "7").times(1)]).await;
    let reply = post(&it, CHAT, "{}").await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, "7"));
    assert_eq!(reply.json()["error"]["type"], "rate_limit_error");
    assert_eq!(reply.header("stand-in-arrival"), "1");
    assert_eq!(post(&it, CHAT, "{}").await.status, 200, "once was once");
}

#[tokio::test]
async fn any_status_and_any_body_can_be_scripted() {
    let it = scripted(vec![
        Rule::on_body("teapot").status(418).body(""),
        Rule::on_body("odd").status(599).body(vec![0, 0xff, 0xfe]).header("content-type", "x/y"),
        Rule::on_body("made").status(201),
        Rule::on_body("nothing").status(204),
    ])
    .await;
    let teapot = post(&it, CHAT, r#"{"teapot":1}"#).await;
    assert_eq!((teapot.status, &teapot.body[..]), (418, &b""[..]));
    let odd = post(&it, CHAT, r#"{"odd":1}"#).await;
    assert_eq!(
        (odd.status, odd.header("content-type"), &odd.body[..]),
        (599, "x/y", &[0, 0xff, 0xfe][..])
    );
    let made = post(&it, CHAT, r#"{"made":1}"#).await;
    assert_eq!((made.status, made.json()["object"].as_str()), (201, Some("chat.completion")));
    let nothing = post(&it, CHAT, r#"{"nothing":1}"#).await;
    assert_eq!((nothing.status, nothing.body.len()), (204, 0));
    assert!(ends(&it).iter().all(|(how, _)| *how == How::Given), "{:?}", ends(&it));
}

#[tokio::test]
async fn a_delay_passes_before_the_head() {
    let it = scripted(vec![Rule::new().delay(MS(800))]).await;
    let started = Instant::now();
    let mut bare = Bare::post(&it, "{}").await;
    assert!(bare.is_silent().await, "no head before its time");
    bare.body(1).await;
    assert!(started.elapsed() >= MS(800));
}

#[tokio::test]
async fn a_cut_gives_exactly_the_bytes_before_it_and_then_a_reset() {
    let body = "0123456789".repeat(1000);
    for bytes in [1, 5, 9_999] {
        let it = scripted(vec![Rule::new().body(body.clone()).cut_after(bytes)]).await;
        let mut bare = Bare::post(&it, "{}").await;
        let (answer, end) = bare.all().await;
        assert_eq!(end, Some(ErrorKind::ConnectionReset));
        let head = String::from_utf8_lossy(&answer);
        assert!(head.contains("content-length: 10000"), "the head promises the whole: {head}");
        assert_eq!(body_of(&answer).unwrap(), &body.as_bytes()[..bytes as usize]);
        assert_eq!(ends(&it), [(How::Cut, bytes as usize)]);
    }
}

#[tokio::test]
async fn a_cut_at_0_resets_before_the_head() {
    let it = scripted(vec![Rule::new().cut_after(0)]).await;
    let (answer, end) = Bare::post(&it, "{}").await.all().await;
    assert_eq!((answer.len(), end), (0, Some(ErrorKind::ConnectionReset)));
    assert_eq!(ends(&it), [(How::Cut, 0)]);
    assert_eq!(it.arrivals()[0].end.as_ref().unwrap().status, None);
}

#[tokio::test]
async fn an_answer_that_is_not_longer_than_the_cut_is_given_whole() {
    let it = scripted(vec![Rule::new().body("0123456789").cut_after(10)]).await;
    assert_eq!(post(&it, CHAT, "{}").await.body, "0123456789");
    assert_eq!(ends(&it), [(How::Given, 10)]);
}

#[tokio::test]
async fn a_cut_takes_the_whole_http_2_connection() {
    let it = scripted(vec![Rule::new().body("0123456789").cut_after(3)]).await;
    let lost = call_by(Version::HTTP_2, it.address(), Method::POST, CHAT, Bytes::from("{}")).await;
    assert!(lost.is_err());
    assert_eq!(ends(&it), [(How::Cut, 3)]);
}

#[tokio::test]
async fn a_stall_falls_silent_until_the_client_gives_up() {
    for bytes in [0, 4] {
        let it = scripted(vec![Rule::new().body("0123456789").stall_after(bytes as u64)]).await;
        let mut bare = Bare::post(&it, "{}").await;
        assert_eq!(bare.body(bytes).await, b"0123456789"[..bytes]);
        assert!(bare.is_silent().await);
        assert_eq!(it.counts().open(), 1);
        drop(bare);
        it.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
        assert_eq!(ends(&it), [(How::Gone, bytes)]);
    }
}

#[tokio::test]
async fn a_trickle_gives_piece_by_piece_and_in_the_end_all() {
    let it = scripted(vec![Rule::new().body("0123456789").trickle(6, MS(2500))]).await;
    let started = Instant::now();
    let mut bare = Bare::post(&it, "{}").await;
    let first = bare.body(1).await;
    assert_eq!(first, b"012345", "the first piece does not wait, and the second does");
    assert!(started.elapsed() < MS(2500));
    let (rest, reply) = (bare.more(4).await, post(&it, CHAT, "{}").await);
    assert_eq!((&rest[..], &reply.body[..]), (&b"6789"[..], &b"0123456789"[..]));
    assert!(started.elapsed() >= MS(5000), "one pause each");
    assert_eq!(reply.header("content-length"), "10");
}

#[tokio::test]
async fn a_trickle_can_end_in_a_cut() {
    let it = scripted(vec![Rule::new().body("0123456789").trickle(2, MS(5)).cut_after(5)]).await;
    let (answer, end) = Bare::post(&it, "{}").await.all().await;
    assert_eq!((body_of(&answer).unwrap(), end), (&b"01234"[..], Some(ErrorKind::ConnectionReset)));
}

#[tokio::test]
async fn a_hang_never_answers_and_ends_with_the_client() {
    let it = scripted(vec![Rule::new().hang()]).await;
    let mut bare = Bare::post(&it, "{}").await;
    it.wait_for_arrivals(1, SOON).await.unwrap();
    assert!(bare.is_silent().await);
    drop(bare);
    it.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
}

#[tokio::test]
async fn raw_bytes_replace_the_answer_and_end_the_stream() {
    let raw = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ncontent-length: 3\r\n\r\n\xff\0abc";
    let it = scripted(vec![Rule::new().raw(raw.to_vec())]).await;
    let (answer, end) = Bare::post(&it, "{}").await.all().await;
    assert_eq!((answer, end), (raw.to_vec(), None));
    let large = vec![7; 8 << 20];
    it.script(vec![Rule::new().raw(large.clone())]).unwrap();
    let (answer, end) = Bare::post(&it, "{}").await.all().await;
    assert!(answer == large && end.is_none(), "also more than a socket buffer holds");
}

#[tokio::test]
async fn a_connection_is_kept_unless_the_rule_closes_it() {
    let it = scripted(vec![Rule::on_nth(2).body("bye").close(), Rule::new().body("hi")]).await;
    let mut bare = Bare::post(&it, "{}").await;
    assert_eq!(bare.body(2).await, b"hi");
    bare.send("{}").await;
    let (answer, end) = bare.all().await;
    assert_eq!((body_of(&answer).unwrap(), end), (&b"bye"[..], None));
    assert!(String::from_utf8_lossy(&answer).contains("connection: close"));
}
