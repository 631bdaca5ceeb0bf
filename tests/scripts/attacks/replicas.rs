//! What a replica that stands still makes of a repeat.

use holdfast_core::{
    model::Key,
    script::{self, Listing},
};
use holdfast_testkit::{RedisServer, Value, eventually};

use crate::fixture::{Item, LIMIT, Shard, run_raw};

/// How many replicas have what this connection wrote last, after at most so many ms.
async fn reached(shard: &Shard, ms: &str) -> Option<i64> {
    shard.tell(&[&"WAIT", &"1", &ms]).await.int()
}

/// Reads a request on the connection that waits, with a write of its own at the end or without.
async fn read(shard: &Shard, key: Key, tick: bool) -> Value {
    let script: Listing = script::all().into_iter().find(|it| it.name == "read").unwrap();
    let tick: &[u8] = if tick { b"1" } else { b"0" };
    run_raw(shard, &script, &[b"0", tick, b"9", key.as_bytes()]).await
}

// 25
#[tokio::test]
async fn an_answer_that_ends_with_a_write_of_its_own_is_not_told_as_safe_by_a_frozen_replica() {
    let shard = Shard::start().await;
    let replica = RedisServer::with(|it| it.appendonly = false).await;
    let port = shard.server.port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    let handle = shard.accept(&Item::new("a")).await;
    eventually("the replica follows", LIMIT, async || {
        read(&shard, handle.key(), true).await;
        match reached(&shard, "500").await {
            Some(1) => Ok(()),
            other => Err(format!("{other:?} replicas")),
        }
    })
    .await;

    replica.pause();
    // Accepted on another connection, and nowhere but here.
    let later = shard.accept(&Item::new("b")).await;
    let told = read(&shard, later.key(), true).await;
    let word = told.array().unwrap()[0].array().unwrap()[0].clone();
    assert_eq!(word, Value::from("at"), "it is told as it is");
    assert_eq!(reached(&shard, "200").await, Some(0), "and not as safe: the tick did not arrive");
    replica.resume();
    read(&shard, later.key(), true).await;
    assert_eq!(reached(&shard, "20000").await, Some(1), "the tick arrived");
    let key = later.key();
    // The stream is ordered: what was shown is there before the tick is.
    let words = [b"HEXISTS".as_slice(), shard.keys.ticket.as_bytes(), key.as_bytes()];
    assert_eq!(replica.command(&words).await.int(), Some(1));
}
