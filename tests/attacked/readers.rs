//! Callers who ask for what is large, and do not read it.

use std::time::Duration;

use bytes::Bytes;
use holdfast_testkit::RedisServer;
use holdfast_testkit::stand_in::Rule;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{alone, asked_meanwhile, assert_at_once, mebibytes, resident};
use crate::fleet::{Fleet, Setup};

/// How many ask, and for how much.
const READERS: usize = 200;
const ANSWER: usize = 20 << 20;

/// What answers may take in the process, and what is being read at any time, twice.
const ROOM: u64 = (256 << 20) + 4 * ANSWER as u64;

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_that_nobody_reads_hold_up_nobody_and_find_an_end() {
    let _alone = alone().await;
    let fleet = Fleet::without_producer(Setup::default(), RedisServer::start().await).await;
    let large = Rule::on_body("large").body(Bytes::from(vec![b'x'; ANSWER]));
    fleet.gateway.script(vec![large]).expect("a rule");
    let producer = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    fleet.ready(producer.ops).await;
    let _worker = fleet.worker();
    fleet.submit("large", "{\"content\":\"large\"}").await;
    assert_eq!(fleet.result("large").await.1.body.len(), ANSWER);
    let before = resident(producer.process.pid());

    let address = fleet.api("").replace("http://", "");
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut stream = TcpStream::connect(&address).await.expect("a connection");
        let ask = "GET /v1/queues/q/requests/large/result HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(ask.as_bytes()).await.expect("sent");
        readers.push(stream);
    }
    let (mut number, mut most) = (0, 0);
    let watched = tokio::time::sleep(Duration::from_secs(3));
    let ((), took) = asked_meanwhile(watched, async |_| {
        number += 1;
        fleet.submit(&format!("other-{number}"), "{}").await;
        assert_eq!(fleet.result(&format!("other-{number}")).await.0, "answered");
        most = most.max(resident(producer.process.pid()));
    })
    .await;
    let slowest = took.iter().max().expect("an answer");
    println!(
        "{READERS} ask for {} MiB each and read nothing; {} others were answered, the slowest in {} ms; \
         memory {} MiB before, {} MiB at most",
        mebibytes(ANSWER as u64),
        took.len(),
        slowest.as_millis(),
        mebibytes(before),
        mebibytes(most),
    );
    assert_at_once(&took);
    assert!(most < before + ROOM, "{} MiB more", mebibytes(most - before));
    drop(readers);
    assert_eq!(fleet.result("large").await.1.body.len(), ANSWER, "there is room again");
    assert!(!producer.process.output().contains("panicked"));
}
