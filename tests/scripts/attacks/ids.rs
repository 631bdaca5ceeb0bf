//! Submits that are repeated, and a server that forgets what it acknowledged.

use holdfast_core::{
    error::Refusal,
    model::{Home, Outcome, Session},
    script::{FullOf, RenewReply, SettleReply, SubmitReply},
};

use crate::fixture::{Item, Shard, ack, assert_same, fence, handles};

/// The repeat is answered with the first generation, where it is now; nothing is written but a longer retention.
async fn is_known(shard: &Shard, item: &Item, home: Home) {
    for copy in [item.clone(), item.again()] {
        let before = shard.dump().await;
        let reply = shard.submit_one(&copy).await;
        let SubmitReply::Known(Some(at), ticket) = reply else { panic!("{reply:?}") };
        assert_eq!((at, ticket.generation), (home, item.generation));
        assert_same("a repeat", &before, &shard.dump().await);
    }
}

// 17
#[tokio::test]
async fn a_repeated_submit_gives_the_same_generation_while_the_queue_is_full() {
    let shard = Shard::with(|policy| policy.capacity = 1).await;
    let ended = Item::new("ended");
    let (fence, a) = shard.running(&ended).await;
    assert_eq!(shard.settle(fence, a, ack("done")).await, SettleReply::Done);
    let waiting = Item::new("waiting");
    shard.accept(&waiting).await;

    is_known(&shard, &ended, Home::Finished).await;
    is_known(&shard, &waiting, Home::Pending).await;
    let fresh = shard.submit_one(&Item::new("fresh")).await;
    assert_eq!(fresh, SubmitReply::Full(FullOf::Requests));
    shard.assert_whole().await;
}

// 17
#[tokio::test]
async fn a_repeated_submit_gives_the_same_generation_after_its_deadline() {
    let shard = Shard::start().await;
    let item = Item::new("a").by(shard.now().await + 1000);
    let (fence, a) = shard.running(&item).await;
    assert_eq!(shard.settle(fence, a, ack("in time")).await, SettleReply::Done);
    shard.until(item.deadline).await;

    is_known(&shard, &item, Home::Finished).await;
    let fresh = Item::new("fresh").by(item.deadline);
    assert_eq!(shard.submit_one(&fresh).await, SubmitReply::Late);
    shard.assert_whole().await;
}

// 17
#[tokio::test]
async fn what_was_submitted_can_be_read_and_told_at_maxmemory() {
    let shard = Shard::start().await;
    let item = Item::new("a");
    let (fence, a) = shard.running(&item).await;
    assert_eq!(shard.settle(fence, a, ack("done")).await, SettleReply::Done);
    shard.fill_memory().await;

    let before = shard.dump().await;
    let refused = shard.submit(&[item.again()]).await.unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::OutOfMemory));
    assert!(!refused.may_have_run());
    let found = shard.find(item.key()).await.unwrap();
    assert_eq!((found.home, found.ticket.generation), (Some(Home::Finished), item.generation));
    assert_eq!(shard.outcome(item.key()).await, Outcome::Answered);
    assert_same("a submit at maxmemory", &before, &shard.dump().await);
}

// 18
#[tokio::test]
async fn a_repeat_just_before_the_sweep_keeps_the_record_for_the_copy_just_after() {
    let shard = Shard::start().await;
    let item = Item::new("a");
    let (fence, a) = shard.running(&item).await;
    assert_eq!(shard.settle(fence, a, ack("done")).await, SettleReply::Done);
    let end = shard.now().await + 200;
    shard.score(&shard.keys.finished, &[a], end).await;

    let sent = shard.now().await;
    let reply = shard.submit_one(&item.again()).await;
    assert!(
        matches!(&reply, SubmitReply::Known(Some(Home::Finished), it) if it.generation == item.generation)
    );
    shard.until(end).await;
    assert_eq!(shard.sweep().await, [], "its retention has moved");
    let moved = shard.find(item.key()).await.unwrap().score;
    assert!(moved >= sent + 600_000, "by ten minutes from the repeat");
    is_known_as_first(&shard, &item).await;
}

async fn is_known_as_first(shard: &Shard, item: &Item) {
    let reply = shard.submit_one(&item.again()).await;
    let SubmitReply::Known(Some(Home::Finished), ticket) = reply else { panic!("{reply:?}") };
    assert_eq!(ticket.generation, item.generation);
    shard.assert_whole().await;
}

// 21
#[tokio::test]
async fn an_answer_for_a_forgotten_generation_is_never_the_record_of_the_next() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let empty = shard.remember().await;
    let item = Item::new("a");
    let old = shard.accept(&item).await;
    assert_eq!(handles(&shard.claim(fence(worker, 5), 1).await), [old]);

    shard.forget_since(&empty).await;
    let new = shard.accept(&item.again()).await;
    assert_eq!((new.sequence(), new.key()), (old.sequence(), old.key()), "the counters went back");
    // Late, and new to a server that forgot the session: even the fence is the same again.
    assert_eq!(handles(&shard.claim(fence(worker, 5), 1).await), [new]);

    let before = shard.dump().await;
    let reply = shard.settle(fence(worker, 5), old, ack("of the old")).await;
    assert!(matches!(reply, SettleReply::Fenced | SettleReply::Gone), "{reply:?}");
    assert_same("an old owner's ack", &before, &shard.dump().await);
    assert_eq!(shard.renew(fence(worker, 5), old).await, RenewReply::Lost);
    assert_eq!(shard.settle(fence(worker, 5), new, ack("of the new")).await, SettleReply::Done);
    assert_eq!(shard.record(new.key()).await.answer.body, "of the new");
    shard.assert_whole().await;
}

// 22
#[tokio::test]
async fn an_owner_whose_claim_was_forgotten_is_fenced_and_the_request_runs_again() {
    let shard = Shard::start().await;
    let a = shard.accept(&Item::new("a")).await;
    let before_claim = shard.remember().await;
    let old = shard.lease(a).await;
    shard.forget_since(&before_claim).await;

    old_owner_is_fenced(&shard, old, a).await;
    let new = shard.lease(a).await;
    old_owner_is_fenced(&shard, old, a).await;
    assert_eq!(shard.settle(new, a, ack("the only one")).await, SettleReply::Done);
    old_owner_is_fenced(&shard, old, a).await;
    assert_eq!(shard.record(a.key()).await.answer.body, "the only one");
    shard.assert_whole().await;
}

// 22
#[tokio::test]
async fn a_request_whose_ack_was_forgotten_runs_again_and_its_old_owner_is_fenced() {
    let shard = Shard::start().await;
    let (old, a) = shard.running(&Item::new("a")).await;
    let before_ack = shard.remember().await;
    assert_eq!(shard.settle(old, a, ack("forgotten")).await, SettleReply::Done);
    shard.forget_since(&before_ack).await;

    // Its owner was told, and renews no more.
    shard.die(&[a]).await;
    let new = shard.lease(a).await;
    old_owner_is_fenced(&shard, old, a).await;
    assert_eq!(shard.settle(new, a, ack("of the second")).await, SettleReply::Done);
    old_owner_is_fenced(&shard, old, a).await;
    assert_eq!(shard.record(a.key()).await.answer.body, "of the second");
    shard.assert_whole().await;
}

async fn old_owner_is_fenced(
    shard: &Shard,
    old: holdfast_core::model::Fence,
    handle: holdfast_core::model::Handle,
) {
    let before = shard.dump().await.without_beat(shard);
    assert_eq!(shard.renew(old, handle).await, RenewReply::Lost);
    assert_eq!(shard.settle(old, handle, ack("of the old")).await, SettleReply::Fenced);
    assert_same("an old owner", &before, &shard.dump().await.without_beat(shard));
}
