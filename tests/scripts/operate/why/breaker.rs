//! What waits for a target that workers hold back.

use holdfast_core::operate::Hold;
use holdfast_core::script::Register;

use super::super::why;
use super::{asking, assert_told};
use crate::fixture::{Item, Shard};

/// A worker that is there, has asked the shard for work, and says this of the queue's breaker.
async fn holding_back(shard: &Shard, state: &str) {
    let session = asking(shard, "w").await;
    let text = format!(
        r#"{{"name":"w","breakers":{{"q":{{"state":"{state}","reason":"429","since":1.5}},"other":{{"state":"open","reason":"connect","since":1}}}}}}"#
    );
    Register::Worker(session, &text).run(&shard.redis).await.unwrap();
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
        holding_back(&shard, state).await;
        assert_told(&why(&shard, "a").await, Hold::Breaker, sentence, mend);
    }
}
