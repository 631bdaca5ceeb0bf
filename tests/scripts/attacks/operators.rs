//! Operators' words that come late, or two at once.

use std::num::NonZeroU32;

use holdfast_core::{
    keys::ShardKeys,
    model::{Generation, Home, Session},
    script::{
        CancelReply, Claim, Override, Overrule, OverruleMode, OverruleReply, PromoteReply,
        RedriveReply, SettleReply,
    },
};

use crate::fixture::{Item, Shard, ack, assert_same, bury, fence, retry};

// 19
#[tokio::test]
async fn of_two_redrives_one_counts_and_late_calls_for_the_dead_generation_write_nothing() {
    let shard = Shard::start().await;
    let (owner, old) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.settle(owner, old, bury()).await, SettleReply::Done);
    let [first, second] = [Generation::random(), Generation::random()];
    let RedriveReply::Redriven(ticket) = shard.redrive(old, first).await else {
        panic!("not redriven");
    };
    let previous = ticket.previous.unwrap();
    assert_eq!((ticket.generation, previous.generation), (first, old.generation()));

    let before = shard.dump().await;
    assert_eq!(shard.redrive(old, second).await, RedriveReply::Gone);
    assert_eq!(shard.redrive(old, first).await, RedriveReply::Already(ticket.clone()));
    assert_eq!(shard.settle(owner, old, bury()).await, SettleReply::Gone);
    assert_eq!(shard.cancel(old).await, CancelReply::Gone);
    assert_same("a late call", &before, &shard.dump().await);

    let new = ticket.handle(old.key());
    let owner = shard.lease(new).await;
    assert_eq!(shard.settle(owner, new, ack("of the second run")).await, SettleReply::Done);
    assert_eq!(
        shard.redrive(old, first).await,
        RedriveReply::Already(ticket_of(&shard, new).await)
    );
    assert_eq!(shard.cancel(old).await, CancelReply::Gone, "not the end of another generation");
    assert_eq!(shard.home(new.key()).await, Some(Home::Finished));
    shard.assert_whole().await;
}

async fn ticket_of(
    shard: &Shard,
    handle: holdfast_core::model::Handle,
) -> Box<holdfast_core::model::Ticket> {
    shard.find(handle.key()).await.unwrap().ticket
}

/// A queue of eight shards, as operators meet it.
struct Queue {
    shard: Shard,
    keys: Vec<ShardKeys>,
}

const SHARDS: NonZeroU32 = NonZeroU32::new(8).unwrap();

impl Queue {
    async fn start() -> Self {
        let shard = Shard::start().await;
        let keys = ShardKeys::all(&shard.keys.queue, SHARDS.get());
        Self { shard, keys }
    }

    async fn say(
        &self,
        at: usize,
        word: Override,
        mode: OverruleMode,
        version: u64,
    ) -> OverruleReply {
        let overrule = Overrule { shard: &self.keys[at], shards: SHARDS, word, mode, version };
        overrule.run(&self.shard.redis).await.unwrap()
    }

    async fn decide(&self, word: Override, seen: u64) -> OverruleReply {
        self.say(0, word, OverruleMode::Decide, seen).await
    }

    async fn take(&self, at: usize, word: Override, version: u64) -> OverruleReply {
        self.say(at, word, OverruleMode::Take, version).await
    }

    /// The value of a field of `meta` in each shard.
    async fn each(&self, field: &str) -> Vec<Option<i64>> {
        let mut values = Vec::new();
        for keys in &self.keys {
            values.push(self.shard.tell(&[&"HGET", &keys.meta, &field]).await.int());
        }
        values
    }
}

// 27
#[tokio::test]
async fn a_late_pause_does_not_undo_the_resume_in_any_shard() {
    let queue = Queue::start().await;
    let [pause, resume] = [Override::Paused(true), Override::Paused(false)];
    assert_eq!(queue.decide(pause, 0).await, OverruleReply::Set(1));
    assert_eq!(queue.decide(resume, 1).await, OverruleReply::Set(2));
    for at in 1..8 {
        // Half of them never heard of the pause.
        if at % 2 == 0 {
            assert_eq!(queue.take(at, pause, 1).await, OverruleReply::Set(1));
        }
        assert_eq!(queue.take(at, resume, 2).await, OverruleReply::Set(2));
        assert_eq!(queue.take(at, resume, 2).await, OverruleReply::Already(2));
    }

    let before = queue.shard.dump().await;
    assert_eq!(queue.decide(pause, 0).await, OverruleReply::Newer(2));
    for at in 1..8 {
        assert_eq!(queue.take(at, pause, 1).await, OverruleReply::Newer(2));
    }
    assert_same("a late pause", &before, &queue.shard.dump().await);
    let item = queue.shard.accept(&Item::new("a")).await;
    queue.shard.lease(item).await;
}

// 27
#[tokio::test]
async fn of_two_limits_set_at_once_all_eight_shards_end_with_one() {
    let queue = Queue::start().await;
    let [ten, twenty] = [Override::Limit(Some(10)), Override::Limit(Some(20))];
    assert_eq!(queue.decide(ten, 0).await, OverruleReply::Set(1));
    assert_eq!(queue.decide(twenty, 0).await, OverruleReply::Newer(1), "the other was faster");
    assert_eq!(queue.decide(twenty, 1).await, OverruleReply::Set(2));
    for at in 1..8 {
        // The two spread their words in either order.
        let words = if at % 2 == 0 { [(ten, 1), (twenty, 2)] } else { [(twenty, 2), (ten, 1)] };
        for (word, version) in words {
            queue.take(at, word, version).await;
        }
    }
    assert_eq!(queue.each("limit_version").await, [Some(2); 8]);
    assert_eq!(queue.each("limit_total").await, [Some(20); 8]);
    let shares = [3, 3, 3, 3, 2, 2, 2, 2].map(Some);
    assert_eq!(queue.each("limit").await, shares, "twenty in all");
}

// 27
#[tokio::test]
async fn another_word_under_a_version_that_is_taken_changes_nothing() {
    let queue = Queue::start().await;
    let [ten, twenty] = [Override::Limit(Some(10)), Override::Limit(Some(20))];
    queue.decide(ten, 0).await;
    queue.take(1, ten, 1).await;
    let before = queue.shard.dump().await;
    assert_eq!(queue.take(1, twenty, 1).await, OverruleReply::Newer(1));
    assert_eq!(queue.take(1, Override::Limit(None), 1).await, OverruleReply::Newer(1));
    assert_eq!(queue.decide(Override::Limit(None), 0).await, OverruleReply::Newer(1));
    assert_same("another word", &before, &queue.shard.dump().await);
    assert_eq!(queue.take(1, ten, 1).await, OverruleReply::Already(1));
}

// 28
#[tokio::test]
async fn a_late_retry_now_does_not_shorten_a_later_back_off() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let (owner, a) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.settle(owner, a, retry(60_000)).await, SettleReply::Done);
    let seen = shard.find(a.key()).await.unwrap().score;
    assert_eq!(shard.retry_now(a, seen).await, PromoteReply::Moved(a));
    let owner = fence(worker, 1);
    assert_eq!(shard.claim(owner, 1).await.len(), 1);
    assert_eq!(shard.settle(owner, a, retry(7_200_000)).await, SettleReply::Done);

    let before = shard.dump().await;
    assert_eq!(shard.retry_now(a, seen).await, PromoteReply::Changed(a));
    assert_same("a late retry-now", &before, &shard.dump().await);
    let claimed = shard.run(Claim { free: 1, ..shard.ask(fence(worker, 2)) }).await;
    assert_eq!(claimed.leases, []);
    assert!(claimed.next_due.unwrap().as_secs() > 7000, "{:?}", claimed.next_due);
    shard.assert_whole().await;
}
