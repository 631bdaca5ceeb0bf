//! A Redis without room for anything more.

use holdfast_core::{
    Redis,
    error::Refusal,
    model::{Generation, Handle, Home, Outcome, Session},
    redis::Options,
    script::{
        CancelReply, Charge, Override, OverruleReply, Policy, PolicyReply, PromoteReply, Read,
        ReclaimReply, Register, RegisterReply, RenewReply, Ring, SettleReply, SweepReply,
    },
};

use crate::fixture::{Item, LIMIT, Shard, ack, assert_same, bury, fence, release, retry};

/// Requests in every home, each for one of the calls that come when the memory is full.
struct Full {
    shard: Shard,
    held: Vec<(holdfast_core::model::Fence, Handle)>,
    lapsed: Handle,
    due: Handle,
    late: Handle,
    dead: Handle,
    old: Handle,
}

impl Full {
    async fn start() -> Self {
        let mut shard = Shard::start().await;
        let mut held = Vec::new();
        for number in 0..5 {
            held.push(shard.running(&Item::new(format!("held{number}"))).await);
        }
        let (_, lapsed) = shard.running(&Item::new("lapsed")).await;
        let dead = shard.dead(&Item::new("dead")).await;
        let old = shard.accept(&Item::new("old")).await;
        shard.cancel(old).await;
        let soon = shard.now().await + 1000;
        let due = shard.accept(&Item::new("due").from(soon)).await;
        let late = shard.accept(&Item::new("late").by(soon)).await;
        shard.until(soon).await;
        shard.score(&shard.keys.finished, &[old], soon - 1).await;
        shard.lapse(&[lapsed]).await;
        shard.fill_memory().await;
        // A role that starts again knows no script, and neither does the server.
        shard.tell(&[&"SCRIPT", &"FLUSH"]).await;
        let mut options = Options::new(shard.server.url());
        options.command_timeout = LIMIT;
        shard.redis = Redis::open(options).unwrap();
        Self { shard, held, lapsed, due, late, dead, old }
    }
}

// 24
#[tokio::test]
async fn at_maxmemory_every_role_starts_again_and_its_calls_work() {
    let Full { mut shard, .. } = Full::start().await;
    shard.policy.capacity += 1;
    let redis = &shard.redis;
    let policy = Policy { shard: &shard.keys, policy: &shard.policy, write: true };
    assert_eq!(policy.run(redis).await.unwrap(), PolicyReply::Written(2));
    let queue = Register::Queue(&shard.keys.queue, shard.policy.shards);
    for row in [queue, Register::Worker(Session::random(), "worker")] {
        assert!(matches!(row.run(redis).await.unwrap(), RegisterReply::Registered(_)));
    }
    Ring { shard: &shard.keys }.run(redis).await.unwrap();
    let read = Read { shard: &shard.keys, keys: &[], whole: 0, tick: true };
    read.run(redis).await.unwrap();
    assert_eq!(shard.meta("tick").await, Some(1));
    assert_eq!(shard.depth().await.leased, 6);
    for (version, paused) in [(0, true), (1, false)] {
        let reply = shard.decide(Override::Paused(paused), version).await;
        assert_eq!(reply, OverruleReply::Set(version + 1));
    }
    shard.assert_whole().await;
}

// 24
#[tokio::test]
async fn at_maxmemory_what_is_there_drains() {
    let Full { shard, held, lapsed, due, late, old, .. } = Full::start().await;
    assert_eq!(shard.sweep().await, [SweepReply::Swept(old)]);
    assert_eq!(shard.expire().await, [(late, Outcome::DeadlineExceeded)]);
    assert_eq!(shard.promote().await, [PromoteReply::Moved(due)]);
    assert_eq!(shard.reclaim().await, [ReclaimReply::Returned(lapsed, Charge::Lapse)]);
    let worker = fence(Session::random(), 1);
    assert_eq!(shard.claim(worker, 2).await.len(), 2);

    let (owner, unwanted) = held[0];
    assert_eq!(shard.cancel(unwanted).await, CancelReply::Asked);
    assert!(matches!(shard.renew(owner, unwanted).await, RenewReply::Cancel(_)));
    let ends = [ack("an answer"), retry(60_000), release(false), bury()];
    for ((fence, handle), kind) in held[1..].iter().zip(ends) {
        assert_eq!(shard.settle(*fence, *handle, kind).await, SettleReply::Done);
    }
    let waiting = held[3].1;
    assert_eq!(shard.home(waiting.key()).await, Some(Home::Pending));
    assert_eq!(shard.cancel(waiting).await, CancelReply::Cancelled);
    shard.assert_whole().await;
}

// 24
#[tokio::test]
async fn at_maxmemory_submit_and_redrive_are_refused_with_nothing_left_behind() {
    let Full { shard, dead, .. } = Full::start().await;
    let before = shard.dump().await;
    let submit = shard.submit(&Item::many("new", 3)).await.unwrap_err();
    let redrive = shard.try_redrive(dead, Generation::random()).await.unwrap_err();
    for error in [submit, redrive] {
        assert_eq!(error.refusal(), Some(Refusal::OutOfMemory), "{error}");
        assert!(!error.may_have_run());
    }
    assert_same("a refused call", &before, &shard.dump().await);
    shard.assert_whole().await;
}
