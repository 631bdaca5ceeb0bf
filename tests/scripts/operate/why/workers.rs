//! What waits while its workers say nothing any more.

use holdfast_core::{operate::Hold, script::Claim};

use super::super::why;
use super::{asking, assert_told, not_seen_for};
use crate::fixture::{Item, Shard, fence};

#[tokio::test]
async fn what_waits_for_a_worker_that_is_silent_says_when_it_was_last_seen() {
    let shard = Shard::start().await;
    let session = asking(&shard, "gpu-7").await;
    shard.accept(&Item::new("a")).await;
    not_seen_for(&shard, session, 60_000).await;
    let told = why(&shard, "a").await.sentence;
    assert!(told.contains("; 1 worker is there, and"), "its word is not late yet: {told}");
    not_seen_for(&shard, session, 80_000).await;
    let look =
        "See whether a worker still runs, as each says once a minute: holdfastctl worker ls.";
    assert_told(
        &why(&shard, "a").await,
        Hold::Line,
        "It is the next to be claimed in its shard: nothing ended there in the last minute; the one worker was last seen T ago, and it has T left until its deadline.",
        look,
    );
    let other = asking(&shard, "gpu-8").await;
    not_seen_for(&shard, other, 90_000).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Line,
        "It is the next to be claimed in its shard: nothing ended there in the last minute; the last of 2 workers was seen T ago, and it has T left until its deadline.",
        look,
    );
    for session in [session, other] {
        not_seen_for(&shard, session, 121_000).await;
    }
    assert_eq!(why(&shard, "a").await.hold, Hold::NoWorker);
    // Whoever claims is there, though its word is late.
    not_seen_for(&shard, session, 80_000).await;
    shard.run(Claim { free: 0, ..shard.ask(fence(session, 2)) }).await;
    let told = why(&shard, "a").await.sentence;
    assert!(told.contains("; 1 worker is there, and"), "{told}");
}
