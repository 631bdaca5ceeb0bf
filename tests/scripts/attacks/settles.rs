//! Settles that are repeated, and ends that meet each other.

use std::time::Duration;

use holdfast_core::{
    model::{Generation, Home, Outcome, Settled},
    script::{
        CancelReply, Charge, ReclaimReply, RedriveReply, RenewReply, SettleKind, SettleReply,
    },
};
use holdfast_testkit::eventually;

use crate::fixture::{Item, LIMIT, Shard, ack, assert_same, bury, release, retry};

// 7
#[tokio::test]
async fn a_repeated_retry_or_release_is_already_done_until_another_settles_and_fenced_then() {
    for (first, word) in [(retry(0), Settled::Retry), (release(true), Settled::Release)] {
        let shard = Shard::start().await;
        let (old, a) = shard.running(&Item::new("a")).await;
        assert_eq!(shard.settle(old, a, first.clone()).await, SettleReply::Done);
        writes_nothing(&shard, old, a, &first, SettleReply::Already(word)).await;
        let new = shard.lease(a).await;
        writes_nothing(&shard, old, a, &first, SettleReply::Already(word)).await;
        assert_eq!(shard.settle(new, a, ack("of the second")).await, SettleReply::Done);
        writes_nothing(&shard, old, a, &first, SettleReply::Fenced).await;
        assert_eq!(shard.record(a.key()).await.answer.body, "of the second");
        shard.assert_whole().await;
    }
}

/// Settles once more; the reply is this, and the shard stays as it is.
async fn writes_nothing(
    shard: &Shard,
    fence: holdfast_core::model::Fence,
    handle: holdfast_core::model::Handle,
    kind: &SettleKind,
    reply: SettleReply,
) {
    let before = shard.dump().await;
    assert_eq!(shard.settle(fence, handle, kind.clone()).await, reply);
    assert_same("a settle", &before, &shard.dump().await);
}

// 8
#[tokio::test]
async fn a_repeated_ack_of_what_was_swept_is_gone_and_writes_nothing() {
    let shard = Shard::with(|policy| policy.retention = Duration::from_millis(1)).await;
    let (fence, a) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.settle(fence, a, ack("once")).await, SettleReply::Done);
    let swept = async || match shard.sweep().await.len() {
        1 => Ok(()),
        other => Err(format!("{other} swept")),
    };
    eventually("it is swept", LIMIT, swept).await;
    writes_nothing(&shard, fence, a, &ack("once"), SettleReply::Gone).await;
    assert_eq!(shard.find(a.key()).await, None);
    shard.assert_whole().await;
}

// 9
#[tokio::test]
async fn a_renewal_may_be_lost_while_the_unanswered_ack_has_long_been_done() {
    let shard = Shard::start().await;
    let (fence, a) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.settle(fence, a, ack("kept")).await, SettleReply::Done);
    assert_eq!(shard.renew(fence, a).await, RenewReply::Lost);
    writes_nothing(&shard, fence, a, &ack("kept"), SettleReply::Already(Settled::Ack)).await;
    assert_eq!(shard.record(a.key()).await.answer.body, "kept");
    shard.assert_whole().await;
}

// 10
#[tokio::test]
async fn what_is_cancelled_while_it_runs_ends_cancelled_unless_its_answer_comes_first() {
    for kind in [retry(0), retry(60_000), release(true), release(false)] {
        let shard = Shard::start().await;
        let (fence, a) = shard.running(&Item::new("a")).await;
        assert_eq!(shard.cancel(a).await, CancelReply::Asked);
        let ended = SettleReply::Ended(Outcome::Cancelled);
        assert_eq!(shard.settle(fence, a, kind.clone()).await, ended, "{kind:?}");
        ended_as(&shard, a, Outcome::Cancelled).await;
    }

    let shard = Shard::start().await;
    let (_, lapses) = shard.running(&Item::new("lapses")).await;
    let (answers, a) = shard.running(&Item::new("answers")).await;
    for handle in [lapses, a] {
        assert_eq!(shard.cancel(handle).await, CancelReply::Asked);
    }
    let lapsed = ReclaimReply::Ended(lapses, Outcome::Cancelled, Charge::Lapse);
    assert_eq!(shard.die(&[lapses]).await, [lapsed]);
    ended_as(&shard, lapses, Outcome::Cancelled).await;
    assert_eq!(shard.settle(answers, a, ack("first")).await, SettleReply::Done);
    ended_as(&shard, a, Outcome::Answered).await;
}

/// It ended so, and a cancel that comes now changes nothing about it.
async fn ended_as(shard: &Shard, handle: holdfast_core::model::Handle, outcome: Outcome) {
    assert_eq!(shard.outcome(handle.key()).await, outcome);
    let before = shard.dump().await;
    assert_eq!(shard.cancel(handle).await, CancelReply::Ended(outcome));
    assert_same("a cancel", &before, &shard.dump().await);
    shard.assert_whole().await;
}

// 11
#[tokio::test]
async fn a_cancelled_request_at_its_last_lapse_ends_cancelled() {
    let shard = Shard::with(|policy| policy.max_lapses = 4).await;
    let a = shard.accept(&Item::new("a")).await;
    for _ in 0..3 {
        shard.lease(a).await;
        assert_eq!(shard.die(&[a]).await, [ReclaimReply::Returned(a, Charge::Lapse)]);
    }
    shard.lease(a).await;
    assert_eq!(shard.cancel(a).await, CancelReply::Asked);
    let ended = ReclaimReply::Ended(a, Outcome::Cancelled, Charge::Lapse);
    assert_eq!(shard.die(&[a]).await, [ended]);
    assert_eq!(shard.home(a.key()).await, Some(Home::Finished));
    shard.assert_whole().await;
}

// 20
#[tokio::test]
async fn a_cancel_of_the_buried_run_does_not_end_the_redriven_one() {
    let shard = Shard::start().await;
    let (fence, old) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.cancel(old).await, CancelReply::Asked);
    assert_eq!(shard.settle(fence, old, bury()).await, SettleReply::Done);
    let RedriveReply::Redriven(ticket) = shard.redrive(old, Generation::random()).await else {
        panic!("not redriven");
    };
    assert!(!ticket.cancel_asked);
    let new = ticket.handle(old.key());
    shard.lease(new).await;
    assert_eq!(shard.die(&[new]).await, [ReclaimReply::Returned(new, Charge::Lapse)]);
    assert_eq!(shard.home(new.key()).await, Some(Home::Pending));
    shard.assert_whole().await;
}
