//! Ten thousand connections that say nothing, or nothing whole.

use std::time::Duration;

use holdfast_testkit::http::request;
use holdfast_testkit::{RedisServer, free_port};
use nix::sys::resource::{Resource, getrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::{alone, asked_meanwhile, assert_at_once, mebibytes, resident};
use crate::fleet::{Fleet, Setup};

/// As many as come where the system lets the test have as many files.
const CROWD: usize = 10_000;

/// Files that are left to the rest of the tests, which run beside this one.
const FILES_OF_OTHERS: u64 = 4_000;

/// As many places as the API has by default, and what each of them may cost at most.
const PLACES: u64 = 4096;
const EACH: u64 = 64 << 10;

/// How fast they come: 2,500 a second. Faster, the system's own queue of those who connect is full, and lets them try again
/// a second later.
const AT_A_TIME: usize = 50;
const PACE: Duration = Duration::from_millis(20);

const HALF_HEAD: &str = "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\nX-Slow: a";
const HALF_BODY: &str = "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\n\
    Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n{\"payload\":\"";

/// Opens connections to a port, and says on each what `says` has for it. They stay open as long as what this gives.
async fn crowd(port: u16, count: usize, says: fn(usize) -> &'static str) -> Vec<TcpStream> {
    let (mut opening, mut open) = (JoinSet::new(), Vec::new());
    let mut beat = interval(PACE);
    for number in 0..count {
        if number.is_multiple_of(AT_A_TIME) {
            beat.tick().await;
        }
        opening.spawn(async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
            // Who had to leave by then has been there.
            let _ = stream.write_all(says(number).as_bytes()).await;
            Some(stream)
        });
    }
    while let Some(opened) = opening.join_next().await {
        open.extend(opened.expect("no panic"));
    }
    open
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_that_say_nothing_whole_keep_nobody_out() {
    let _alone = alone().await;
    let fleet = Fleet::without_producer(Setup::default(), RedisServer::start().await).await;
    let listen = free_port();
    let address = format!("127.0.0.1:{listen}");
    let environment = [("HOLDFAST_PRODUCER_LISTEN", address.as_str())];
    let producer = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &environment);
    fleet.ready(producer.ops).await;
    let ask = async |number: usize| {
        let url = format!("http://{address}/v1/queues/q/requests");
        let headers = [("content-type", "application/json")];
        let item = format!("{{\"id\":\"crowd-{number}\",\"timeout\":\"10m\",\"payload\":{{}}}}");
        let answer = request("POST", &url, &headers, item).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    };
    ask(1_000_000).await;

    let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit of open files");
    let count = CROWD.min(usize::try_from(files.saturating_sub(FILES_OF_OTHERS)).expect("a count"));
    assert!(
        count as u64 > PLACES,
        "the system allows {files} files: too few for more than {PLACES} connections"
    );
    let before = resident(producer.process.pid());
    let says = |number: usize| match number % 10 {
        0..6 => "",
        6..9 => HALF_HEAD,
        _ => HALF_BODY,
    };
    let (open, took) = asked_meanwhile(crowd(listen, count, says), ask).await;
    let after = resident(producer.process.pid());
    let slowest = took.iter().max().expect("an answer");
    println!(
        "{} of {count} connections came; {} requests were answered meanwhile, the slowest in {} ms; \
         memory {} MiB before, {} MiB after",
        open.len(),
        took.len(),
        slowest.as_millis(),
        mebibytes(before),
        mebibytes(after),
    );
    assert_eq!(open.len(), count);
    assert_at_once(&took);
    assert!(after < before + PLACES * EACH, "{} MiB more", mebibytes(after - before));
    let output = producer.process.output();
    let told = output.lines().filter(|line| line.contains("as many connections as there may be"));
    assert!((1..10).contains(&told.count()), "told once, and seldom again:\n{output}");
    assert!(!output.contains("panicked"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_at_the_ops_port_keeps_no_probe_out() {
    let _alone = alone().await;
    let fleet = Fleet::without_producer(Setup::default(), RedisServer::start().await).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    let ask = async |_| {
        let answer =
            request("GET", &format!("http://127.0.0.1:{}/livez", worker.ops), &[], "").await;
        assert_eq!(answer.status, 200);
    };
    let says =
        |number: usize| if number.is_multiple_of(2) { "" } else { "GET /livez HTTP/1.1\r\nX" };
    let (open, took) = asked_meanwhile(crowd(worker.ops, 500, says), ask).await;
    assert_eq!(open.len(), 500);
    let slowest = took.iter().max().expect("an answer");
    println!("500 connections; {} probes, the slowest in {} ms", took.len(), slowest.as_millis());
    assert_at_once(&took);
    fleet.ready(worker.ops).await;
}
