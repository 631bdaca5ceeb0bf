use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use holdfast_stand_in::{ArrivalLine, Counts, How, Keep, Options, Rule, StandIn, serve};
use hyper::{Method, Version};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::client::{Bare, CHAT, SOON, call_by, post, scripted};

#[tokio::test]
async fn every_byte_of_a_request_is_kept_as_it_came() {
    let it = scripted(vec![]).await;
    let odd: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    let exact =
        br#"{"n": 9007199254740993, "f": 1.0, "z": -0.0, "e": [], "x":1e400,"u":"\u00e9\/"}  "#;
    post(&it, "/v1/chat/completions?a=b%20c", odd.clone()).await;
    post(&it, CHAT, &exact[..]).await;
    let arrivals = it.arrivals();
    assert!(arrivals[0].body == odd && arrivals[1].body == exact[..]);
    assert_eq!((arrivals[0].number, arrivals[1].number), (1, 2));
    assert_eq!(
        (arrivals[0].path.as_str(), &arrivals[0].method),
        ("/v1/chat/completions?a=b%20c", &Method::POST)
    );
    assert_eq!(arrivals[1].headers["content-length"], exact.len().to_string());
    assert!(arrivals[0].since_start <= arrivals[1].since_start);
    assert_eq!(it.bodies()[1], exact[..]);
}

#[tokio::test]
async fn the_answers_bytes_are_kept_as_they_were_given() {
    let it = scripted(vec![]).await;
    for body in ["{}", r#"{"stream": true}"#, "no json"] {
        let reply = post(&it, CHAT, body).await;
        let end = it.arrivals().pop().unwrap().end.unwrap();
        assert_eq!((end.how, end.status), (How::Given, Some(reply.status)));
        assert_eq!(end.answer, reply.body);
    }
}

#[tokio::test]
async fn held_arrivals_wait_and_all_go_on_when_released() {
    let it = scripted(vec![]).await;
    it.hold(true);
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(Bare::post(&it, "{}").await);
    }
    let counts = it.wait_for_arrivals(3, SOON).await.unwrap();
    assert_eq!(counts.open(), 3);
    assert!(waiting[0].is_silent().await, "held");
    it.hold(false);
    for bare in &mut waiting {
        bare.body(1).await;
    }
    assert_eq!(it.counts(), Counts { arrived: 3, given: 3, cut: 0, gone: 0 });
}

#[tokio::test]
async fn a_client_that_leaves_before_its_answer_is_told_as_gone() {
    let it = scripted(vec![]).await;
    it.hold(true);
    let left = Bare::post(&it, r#"{"who": "left"}"#).await;
    let mut stays = Bare::post(&it, r#"{"who": "stays"}"#).await;
    it.wait_for_arrivals(2, SOON).await.unwrap();
    drop(left);
    it.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
    it.hold(false);
    stays.body(1).await;
    for arrival in it.arrivals() {
        let left = arrival.body == r#"{"who": "left"}"#;
        assert_eq!(arrival.end.unwrap().how, if left { How::Gone } else { How::Given });
    }
}

#[tokio::test]
async fn a_stream_of_http_2_that_is_given_up_is_told_as_gone_too() {
    let it = scripted(vec![]).await;
    it.hold(true);
    let call = call_by(Version::HTTP_2, it.address(), Method::POST, CHAT, Bytes::from("{}"));
    let mut calls = JoinSet::new();
    calls.spawn(call);
    it.wait_for_arrivals(1, SOON).await.unwrap();
    calls.shutdown().await;
    it.wait_until(SOON, |counts| counts.gone == 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_given_once_each_however_many_come_at_once() {
    let it = StandIn::start(Options::default()).await.unwrap();
    let address = it.address();
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let call = call_by(Version::HTTP_11, address, Method::POST, CHAT, Bytes::from("{}"));
        calls.spawn(async move { call.await.unwrap().header("stand-in-arrival").parse().unwrap() });
    }
    let mut told: Vec<u64> = calls.join_all().await;
    told.sort_unstable();
    assert!(told.into_iter().eq(1..=200));
    assert!(it.arrivals().into_iter().map(|arrival| arrival.number).eq(1..=200));
}

#[tokio::test]
async fn what_does_not_come_in_time_is_told_with_what_came() {
    let it = scripted(vec![]).await;
    post(&it, CHAT, "{}").await;
    let late = it.wait_for_arrivals(2, Duration::from_millis(20)).await.unwrap_err();
    assert_eq!(late.counts, Counts { arrived: 1, given: 1, cut: 0, gone: 0 });
}

#[tokio::test]
async fn stopped_it_refuses_and_started_again_it_goes_on_counting() {
    let mut it = scripted(vec![Rule::new().body("scripted")]).await;
    post(&it, CHAT, "{}").await;
    it.hold(true);
    let mut open = Bare::post(&it, "{}").await;
    it.wait_for_arrivals(2, SOON).await.unwrap();
    it.stop().await;
    assert!(open.all().await.0.is_empty(), "open connections are dropped");
    assert!(TcpStream::connect(it.address()).await.is_err(), "nobody listens");
    assert_eq!(it.counts(), Counts { arrived: 2, given: 1, cut: 0, gone: 1 });
    it.hold(false);
    it.start_again().await.unwrap();
    let reply = post(&it, CHAT, "{}").await;
    assert_eq!((reply.header("stand-in-arrival"), &reply.body[..]), ("3", &b"scripted"[..]));
}

#[tokio::test]
async fn dropped_nothing_of_it_is_left() {
    let it = scripted(vec![Rule::new().hang()]).await;
    let (address, mut open) = (it.address(), Bare::post(&it, "{}").await);
    it.wait_for_arrivals(1, SOON).await.unwrap();
    drop(it);
    open.all().await;
    let gone = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, gone).await.expect("nobody listens");
}

#[tokio::test]
async fn a_bare_future_serves_until_it_is_told_to_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(
        listener,
        Options { keep: Keep::Last(1), ..Options::default() },
        stop.clone(),
    ));
    let reply =
        call_by(Version::HTTP_11, address, Method::POST, CHAT, Bytes::from("{}")).await.unwrap();
    assert_eq!(reply.status, 200);
    stop.cancel();
    let served = timeout(SOON, tasks.join_next()).await.expect("stops").unwrap();
    served.unwrap().unwrap();
}

#[tokio::test]
async fn the_log_has_a_line_for_each_arrival_and_one_for_each_end() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("arrivals.jsonl");
    let options = Options { log: Some(log.clone()), keep: Keep::Counts, ..Options::default() };
    let it = StandIn::start(options).await.unwrap();
    let reply = post(&it, CHAT, "{ }").await;
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let arrival: ArrivalLine = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((arrival.number, arrival.method.as_str(), arrival.path.as_str()), (1, "POST", CHAT));
    assert_eq!(arrival.body_base64.unwrap(), STANDARD.encode("{ }"));
    assert_eq!(arrival.end, None);
    let end: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!((&end["number"], &end["end"]["how"]), (&json!(1), &json!("given")));
    assert_eq!(end["end"]["answer_base64"], STANDARD.encode(&reply.body));
    assert_eq!(lines.len(), 2);
}

#[tokio::test]
async fn an_answer_comes_without_the_delays_of_the_network_stack() {
    let it = StandIn::start(Options { keep: Keep::Counts, ..Options::default() }).await.unwrap();
    let mut bare = Bare::post(&it, "{}").await;
    bare.body(1).await;
    // A second small write would wait 40 ms for an acknowledgement without TCP_NODELAY, once the kernel has
    // seen enough of the connection to delay it. A busy machine can be that slow too, but not each time.
    it.script(vec![Rule::new().body("ab").trickle(1, Duration::ZERO)]).unwrap();
    let mut took = Vec::new();
    for _ in 0..40 {
        let started = Instant::now();
        bare.send("{}").await;
        bare.body(2).await;
        took.push(started.elapsed());
    }
    let fastest = took[20..].iter().min().unwrap();
    assert!(*fastest < Duration::from_millis(25), "{took:?}");
}
