//! What waits because its leases ran out.

use std::num::NonZeroU32;

use holdfast_core::{
    model::{QueueName, Session},
    operate::Hold,
    script::{Claim, Register},
};

use super::super::why;
use super::{asking, assert_told};
use crate::fixture::{FAR, Item, Shard, fence};

/// A suspect of this id that waits.
async fn suspect(shard: &Shard, item: &Item) {
    let handle = shard.accept(item).await;
    shard.make_suspect(handle).await;
}

/// Another queue on the same server, in the registry.
async fn other_queue(shard: &Shard, name: &str) -> Shard {
    let queue: QueueName = name.try_into().unwrap();
    Register::Queue(&queue, NonZeroU32::MIN).run(&shard.redis).await.unwrap();
    shard.of(&queue).await
}

/// This session takes a suspect there.
async fn takes_a_suspect(shard: &Shard, session: Session) {
    suspect(shard, &Item::new("elsewhere")).await;
    let claim = Claim { may_take_suspect: true, ..shard.ask(fence(session, 1)) };
    assert_eq!(shard.run(claim).await.leases.len(), 1);
}

#[tokio::test]
async fn a_suspect_waits_while_another_one_runs() {
    let shard = Shard::with(|policy| policy.in_flight = Some(2)).await;
    let first = shard.accept(&Item::new("first").by(FAR - 1)).await;
    shard.make_suspect(first).await;
    shard.lease(first).await;
    let second = shard.accept(&Item::new("second")).await;
    for _ in 0..2 {
        shard.lease(second).await;
        shard.die(&[second]).await;
    }
    let told = "It is a suspect, because 2 leases of it ran out, and another suspect of its shard runs: they go one at a time.";
    let look = "Wait for that one, or look at it: holdfastctl lease ls --queue q.";
    assert_told(&why(&shard, "second").await, Hold::Suspect, told, look);

    // That as many run as may is no reason of its own: with a higher limit it still waits.
    shard.running(&Item::new("another").by(FAR - 1)).await;
    let told = format!("{told} Besides, 2 of at most 2 are in flight in its shard.");
    assert_told(&why(&shard, "second").await, Hold::Suspect, &told, look);
}

#[tokio::test]
async fn a_suspect_waits_while_its_only_worker_holds_one_of_another_queue() {
    let shard = Shard::start().await;
    let other = other_queue(&shard, "narrow").await;
    let session = asking(&shard, "gpu-7").await;
    suspect(&shard, &Item::new("a")).await;
    assert_eq!(why(&shard, "a").await.hold, Hold::Line);
    takes_a_suspect(&other, session).await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Suspect,
        "It is a suspect, because 2 leases of it ran out, and the one worker that asks its queue works on another, of queue narrow: a worker holds at most one suspect over all its queues. 0 are before it in its shard.",
        "Wait for that one, or look at it: holdfastctl lease ls --queue narrow.",
    );
    // One that asks, too, and may be dead for all that is known.
    asking(&shard, "gpu-8").await;
    assert_told(
        &why(&shard, "a").await,
        Hold::Suspect,
        "It is a suspect, because 2 leases of it ran out, and 1 of the 2 workers that ask its queue works on another, of queue narrow: a worker holds at most one suspect over all its queues. 0 are before it in its shard.",
        "Wait for that one, or look at it: holdfastctl lease ls --queue narrow. See whether the others are there and have a slot left: holdfastctl worker ls.",
    );
    // What is none waits for something else.
    shard.accept(&Item::new("b")).await;
    assert_eq!(why(&shard, "b").await.hold, Hold::Line);
}

#[tokio::test]
async fn a_suspect_that_ran_in_another_queue_holds_nothing_up_any_more() {
    let shard = Shard::start().await;
    let other = other_queue(&shard, "narrow").await;
    let session = asking(&shard, "gpu-7").await;
    suspect(&shard, &Item::new("a")).await;
    takes_a_suspect(&other, session).await;
    let lease = other.leases().await[0];
    other.die(&[lease.1]).await;
    assert_eq!(why(&shard, "a").await.hold, Hold::Line);
}
