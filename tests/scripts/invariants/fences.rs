//! 3: settle and renew change something only under the stored fence.

use holdfast_core::{
    model::{Fence, Generation, Handle, Session},
    script::{RedriveReply, RenewReply, SettleReply},
};

use crate::fixture::{Item, Shard, ack, assert_same, bury, fence, release, retry};

/// Renews and settles in every way; all must be refused, with nothing written.
async fn is_refused(shard: &Shard, what: &str, fence: Fence, handle: Handle, reply: SettleReply) {
    let before = shard.dump().await.without_beat(shard);
    for kind in [ack("stolen"), bury(), retry(1), release(true), release(false)] {
        assert_eq!(shard.settle(fence, handle, kind).await, reply, "{what}");
    }
    assert_eq!(shard.renew(fence, handle).await, RenewReply::Lost, "{what}");
    assert_same(what, &before, &shard.dump().await.without_beat(shard));
}

#[tokio::test]
async fn a_lease_is_renewed_and_settled_by_its_own_claim_only() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let a = shard.accept(&Item::new("a")).await;
    let other = shard.accept(&Item::new("b")).await;
    assert_eq!(shard.claim(fence(worker, 7), 1).await.len(), 1);
    assert_eq!(shard.claim(fence(worker, 8), 1).await.len(), 1);
    for (what, wrong) in [
        ("an empty fence", Fence::from([0; 32])),
        ("a fence of zeros", Fence::from([b'0'; 32])),
        ("another worker", fence(Session::random(), 7)),
        ("an earlier claim", fence(worker, 6)),
        ("a later claim", fence(worker, 8)),
    ] {
        is_refused(&shard, what, wrong, a, SettleReply::Fenced).await;
    }
    is_refused(&shard, "another's claim", fence(worker, 7), other, SettleReply::Fenced).await;
    shard.assert_whole().await;
}

#[tokio::test]
async fn nobody_settles_what_nobody_holds() {
    let shard = Shard::start().await;
    let soon = shard.now().await + 3_600_000;
    let waiting = shard.accept(&Item::new("waiting")).await;
    let delayed = shard.accept(&Item::new("delayed").from(soon)).await;
    let empty = Fence::from([0; 32]);
    for handle in [waiting, delayed] {
        is_refused(&shard, "an empty fence", empty, handle, SettleReply::Fenced).await;
        is_refused(&shard, "no owner", fence(Session::random(), 1), handle, SettleReply::Fenced)
            .await;
    }
    let nothing = Handle::new(99, Generation::random(), Item::new("never").key());
    is_refused(&shard, "no such request", empty, nothing, SettleReply::Gone).await;
    shard.assert_whole().await;
}

#[tokio::test]
async fn an_owner_whose_lease_was_given_on_is_fenced() {
    let shard = Shard::start().await;
    let (old, a) = shard.running(&Item::new("a")).await;
    shard.die(&[a]).await;
    is_refused(&shard, "reclaimed", old, a, SettleReply::Fenced).await;
    let new = shard.lease(a).await;
    is_refused(&shard, "leased to another", old, a, SettleReply::Fenced).await;
    assert_eq!(shard.settle(new, a, ack("of its owner")).await, SettleReply::Done);
    is_refused(&shard, "ended by another", old, a, SettleReply::Fenced).await;
    assert_eq!(shard.record(a.key()).await.answer.body, "of its owner");
    shard.assert_whole().await;
}

#[tokio::test]
async fn another_generation_of_the_id_is_none_of_the_owners_business() {
    let shard = Shard::start().await;
    let (old, dead) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.settle(old, dead, bury()).await, SettleReply::Done);
    let RedriveReply::Redriven(ticket) = shard.redrive(dead, Generation::random()).await else {
        panic!("not redriven");
    };
    let new = ticket.handle(dead.key());
    for state in ["pending", "leased"] {
        is_refused(&shard, state, old, dead, SettleReply::Gone).await;
        is_refused(&shard, state, old, new, SettleReply::Fenced).await;
        if state == "pending" {
            shard.lease(new).await;
        }
    }
    shard.assert_whole().await;
}
