//! What waits for a target that workers hold back.

use holdfast_core::{model::Session, operate::Hold, script::Register};

use super::super::why;
use super::{asking, assert_told, not_seen_for};
use crate::fixture::{Item, Shard};

/// A worker that is there, has asked the shard for work, and says this of the queue's breaker.
async fn holding_back(shard: &Shard, state: &str, reason: &str) -> Session {
    let session = asking(shard, "w").await;
    let text = format!(
        r#"{{"name":"w","breakers":{{"q":{{"state":"{state}","reason":"{reason}","since":1.5}},"other":{{"state":"open","reason":"connect","since":1}}}}}}"#
    );
    Register::Worker(session, &text).run(&shard.redis).await.unwrap();
    session
}

#[tokio::test]
async fn what_waits_for_a_target_that_is_held_back_says_so() {
    let shard = Shard::start().await;
    shard.accept(&Item::new("a")).await;
    asking(&shard, "closed").await;
    assert_eq!(why(&shard, "a").await.hold, Hold::Line);
    let mend = "Mend the target, or lower the queue's concurrency if it is asked for more than it takes: calls come back by themselves.";
    for (state, sentence) in [
        (
            "limited",
            "Its target refuses calls, is silent or can't be reached (429): 1 of 2 workers holds it back, with fewer calls at once, and 0 are before it in its shard.",
        ),
        (
            "open",
            "Its target refuses calls, is silent or can't be reached (429): 2 of 3 workers hold it back, 1 of them to one probe at a time, and 0 are before it in its shard.",
        ),
    ] {
        holding_back(&shard, state, "429").await;
        assert_told(&why(&shard, "a").await, Hold::Breaker, sentence, mend);
    }
}

#[tokio::test]
async fn what_cannot_be_reached_is_not_asked_for_too_much() {
    let shard = Shard::start().await;
    shard.accept(&Item::new("a")).await;
    let session = holding_back(&shard, "open", "connect").await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Breaker,
        "Its target refuses calls, is silent or can't be reached (connect): 1 of 1 worker holds it back, to one probe at a time, and 0 are before it in its shard.",
        "Mend the target, or see that its address is right and reached from the workers: calls come back by themselves.",
    );
    // What a worker told that is silent since may be over.
    not_seen_for(&shard, session, 80_000).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Breaker,
        "Its target refuses calls, is silent or can't be reached (connect): 1 of 1 worker holds it back, to one probe at a time, and 0 are before it in its shard. That is what was last told, T ago.",
        "See whether a worker still runs, as each says once a minute: holdfastctl worker ls.",
    );
}
