//! 1: one home. 12: no TTL.

use holdfast_core::model::Home;

use crate::fixture::{Item, Shard, tour};

#[tokio::test]
async fn every_move_leaves_each_generation_in_exactly_one_home_and_no_key_with_a_ttl() {
    let shard = Shard::start().await;
    tour(&shard).await;
}

#[tokio::test]
async fn what_the_auditor_is_shown_broken_it_tells() {
    let shard = Shard::start().await;
    let [a, b] = [shard.accept(&Item::new("a")).await, shard.accept(&Item::new("b")).await];
    assert_eq!(shard.home(a.key()).await, Some(Home::Pending));
    let keys = shard.keys.clone();
    let (member, field) = (b.as_bytes(), b.key());
    let breaks: [&[&dyn AsRef<[u8]>]; 6] = [
        &[&"ZADD", &keys.delayed, &"1", member],
        &[&"ZREM", &keys.pending, member],
        &[&"ZADD", &keys.pending, &"5", member],
        &[&"HDEL", &keys.request, field.as_bytes()],
        &[&"HINCRBY", &keys.meta, &"bytes", &"1"],
        &[&"EXPIRE", &keys.meta, &"1000"],
    ];
    for words in breaks {
        let whole = shard.remember().await;
        shard.assert_whole().await;
        shard.tell(words).await;
        let look = std::panic::AssertUnwindSafe(shard.assert_whole());
        assert!(caught(look).await, "not told: {}", String::from_utf8_lossy(words[0].as_ref()));
        shard.forget_since(&whole).await;
    }
}

/// Whether it panics.
async fn caught(look: std::panic::AssertUnwindSafe<impl Future<Output = ()>>) -> bool {
    let mut look = Box::pin(look.0);
    std::future::poll_fn(|context| {
        let poll = || look.as_mut().poll(context);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)) {
            Ok(poll) => poll.map(|()| false),
            Err(_) => std::task::Poll::Ready(true),
        }
    })
    .await
}
