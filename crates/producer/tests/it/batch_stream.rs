//! A batch as a stream: read and answered as it comes, held back by whoever is slow, and left without harm.

use std::time::{Duration, Instant};

use holdfast_testkit::{RedisServer, eventually};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Producer, SOON, problem_of};

fn item(id: &str) -> String {
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":1}}\n")
}

async fn pending(redis: &RedisServer) -> i64 {
    redis.command(&["ZCARD", "hf1:{q/0}:pending"]).await.int().unwrap()
}

/// A batch whose body goes on for as long as the test likes.
struct Batch(BufReader<TcpStream>);

impl Batch {
    async fn begin(producer: &Producer) -> Self {
        let address = producer.base.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "POST /v1/queues/q/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends a part of the body.
    async fn send(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.0.write_all(chunk.as_bytes()).await.unwrap();
    }

    async fn end(&mut self) {
        self.0.write_all(b"0\r\n\r\n").await.unwrap();
    }

    /// The next outcome, whatever of HTTP stands before it.
    async fn told(&mut self) -> Value {
        loop {
            let mut line = String::new();
            let read = timeout(SOON, self.0.read_line(&mut line)).await.expect("an outcome");
            assert_ne!(read.unwrap(), 0, "the answer ended");
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    /// The rest of the answer, and whether it was whole.
    async fn rest(&mut self) -> (String, bool) {
        let mut rest = Vec::new();
        let read = timeout(SOON, self.0.read_to_end(&mut rest)).await.expect("an end");
        let rest = String::from_utf8_lossy(&rest).into_owned();
        let is_whole = read.is_ok() && rest.ends_with("0\r\n\r\n");
        (rest, is_whole)
    }
}

#[tokio::test]
async fn an_item_is_told_before_the_next_one_is_sent() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let mut batch = Batch::begin(&producer).await;
    for number in 0..5 {
        // Cut in the middle, as a network may do it.
        let line = item(&format!("s-{number}"));
        let (one, other) = line.split_at(9);
        batch.send(one).await;
        batch.send(other).await;
        let told = batch.told().await;
        assert_eq!((&told["index"], &told["status"]), (&number.into(), &202.into()));
        assert_eq!(pending(&redis).await, i64::from(number) + 1);
    }
    batch.end().await;
}

#[tokio::test]
async fn each_item_may_take_as_long_as_a_body_and_one_that_does_not_come_ends_the_batch() {
    let redis = RedisServer::start().await;
    let producer =
        Producer::start(&redis, "body_timeout = \"3s\"\nidle_timeout = \"60s\"", "").await;
    let mut batch = Batch::begin(&producer).await;
    let started = Instant::now();
    for number in 0..4 {
        // How slow this caller is: a third of what it may take for each, and more than it may take for one in all.
        tokio::time::sleep(Duration::from_secs(1)).await;
        batch.send(&item(&format!("s-{number}"))).await;
        assert_eq!(batch.told().await["status"], 202);
    }
    assert!(started.elapsed() > Duration::from_secs(3), "longer than one body may take");
    // Blank lines and half an item are no item.
    batch.send("\n\n{\"id\":\"half").await;
    let told = batch.told().await;
    assert_eq!((problem_of(&told), &told["unread"]), ("request-timeout", &true.into()));
    assert_eq!(told["index"], 4);
    let (rest, _) = batch.rest().await;
    assert!(!rest.contains('{'), "it was the last word: {rest}");
    assert_eq!(pending(&redis).await, 4);
}

#[tokio::test]
async fn nothing_is_read_while_nobody_takes_what_is_told_and_others_are_served() {
    let redis = RedisServer::start().await;
    let producer = Producer::start(&redis, "idle_timeout = \"2s\"", "capacity = 10000000").await;
    let mut batch = Batch::begin(&producer).await;
    // Refused at once, so that outcomes are much longer than items.
    let part = "{}\n".repeat(10_000);
    let mut sent = 0_usize;
    let held = loop {
        match timeout(Duration::from_secs(1), batch.send(&part)).await {
            Ok(()) => sent += part.len(),
            Err(_) => break true,
        }
        if sent > 512 << 20 {
            break false;
        }
    };
    assert!(held, "{sent} bytes were read although no outcome was");
    let others: String = (0..600).map(|number| item(&format!("o-{number}"))).collect();
    let told = producer.lines(others).await;
    assert!(told.iter().all(|line| line["status"] == 202));
    // Who never reads is let go.
    let mut rest = Vec::new();
    let ended = eventually("the connection is closed", SOON, async || {
        match batch.0.get_ref().try_write(b"x") {
            Err(err) if err.kind() != std::io::ErrorKind::WouldBlock => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    ended.await;
    let _ = batch.0.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn who_leaves_in_the_middle_has_submitted_what_came_whole_and_nothing_of_the_rest() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let mut batch = Batch::begin(&producer).await;
    batch.send(&format!("{}{}", item("a"), item("b"))).await;
    assert_eq!(batch.told().await["status"], 202);
    assert_eq!(batch.told().await["status"], 202);
    // A whole item but for its end: it may go on.
    batch.send(item("c").trim_end()).await;
    drop(batch);
    let told = producer.lines(format!("{}{}", item("a"), item("d"))).await;
    assert_eq!((&told[0]["status"], &told[1]["status"]), (&200.into(), &202.into()));
    assert_eq!(producer.call("GET", "c").await.status, 404);
    assert_eq!(pending(&redis).await, 3);
    producer.stop().await.unwrap();
}

#[tokio::test]
async fn a_stopping_producer_ends_a_batch_and_says_from_where_it_was_not_read() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let mut batch = Batch::begin(&producer).await;
    batch.send(&item("a")).await;
    assert_eq!(batch.told().await["status"], 202);
    producer.begin_stop();
    let told = batch.told().await;
    assert_eq!((problem_of(&told), &told["unread"]), ("draining", &true.into()));
    assert_eq!(told["index"], 1);
    let (rest, is_whole) = batch.rest().await;
    assert!(is_whole, "{rest}");
    producer.ended().await.unwrap();
}
