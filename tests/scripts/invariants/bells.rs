//! Whatever makes something claimable, or due before all others, rings a short bell; what leaves nothing silences it.

use holdfast_core::{
    model::{Handle, Session},
    script::{Override, Policy},
};

use crate::fixture::{Item, Shard, ack, fence, handles, release, retry};

/// How many tokens lie in the bell.
async fn tokens(shard: &Shard) -> usize {
    shard.dump().await.of(&shard.keys.bell).len()
}

/// Takes every token, runs a call, and says whether it rang.
async fn rings<T>(shard: &Shard, call: impl AsyncFnOnce() -> T) -> bool {
    shard.tell(&[&"DEL", &shard.keys.bell]).await;
    call().await;
    tokens(shard).await > 0
}

async fn score_in_delayed(shard: &Shard, handle: Handle) -> u64 {
    shard.find(handle.key()).await.unwrap().score
}

#[tokio::test]
async fn what_makes_something_claimable_rings() {
    let mut shard = Shard::start().await;
    let a = Item::new("a");
    assert!(rings(&shard, async || shard.accept(&a).await).await, "submit");
    let a = shard.submit_one(&a).await;
    let holdfast_core::script::SubmitReply::Known(_, ticket) = a else { panic!("{a:?}") };
    let a = ticket.handle(Item::new("a").key());

    let owner = shard.lease(a).await;
    assert!(rings(&shard, async || shard.settle(owner, a, release(true)).await).await);
    shard.lease(a).await;
    assert!(rings(&shard, async || shard.die(&[a]).await).await, "reclaim");
    let owner = shard.lease(a).await;
    let later = retry(3_600_000);
    assert!(rings(&shard, async || shard.settle(owner, a, later).await).await, "first due");
    let due = score_in_delayed(&shard, a).await;
    assert!(rings(&shard, async || shard.retry_now(a, due).await).await, "promote");
    let pause = |paused| Override::Paused(paused);
    shard.decide(pause(true), 0).await;
    assert!(rings(&shard, async || shard.decide(pause(false), 1).await).await, "resume");
    shard.policy.in_flight = Some(9);
    let policy = Policy { shard: &shard.keys, policy: &shard.policy, write: true };
    assert!(rings(&shard, async || policy.run(&shard.redis).await.unwrap()).await, "policy");
    let dead = shard.dead(&Item::new("dead").by(crate::fixture::FAR - 1)).await;
    let new = holdfast_core::model::Generation::random();
    assert!(rings(&shard, async || shard.redrive(dead, new).await).await, "redrive");
}

#[tokio::test]
async fn a_retry_rings_only_if_it_is_due_before_all_others() {
    let shard = Shard::start().await;
    let held = [shard.running(&Item::new("a")).await, shard.running(&Item::new("b")).await];
    let settle = async |at: usize, delay| {
        let (fence, handle) = held[at];
        shard.settle(fence, handle, retry(delay)).await
    };
    assert!(rings(&shard, async || settle(0, 3_600_000).await).await, "the first");
    assert!(!rings(&shard, async || settle(1, 7_200_000).await).await, "a later one");
}

#[tokio::test]
async fn what_makes_nothing_claimable_does_not_ring() {
    let shard = Shard::start().await;
    let (fence, a) = shard.running(&Item::new("a")).await;
    let quiet = !rings(&shard, async || {
        shard.renew(fence, a).await;
        shard.cancel(a).await;
        shard.settle(fence, a, ack("done")).await;
        shard.reclaim().await;
        shard.promote().await;
        shard.expire().await;
        shard.sweep().await;
        shard.depth().await;
    })
    .await;
    assert!(quiet);
}

#[tokio::test]
async fn a_settle_or_a_lapse_of_one_suspect_rings_for_the_next() {
    let shard = Shard::start().await;
    let second = shard.accept(&Item::new("second")).await;
    shard.make_suspect(second).await;
    let first = shard.accept(&Item::new("first").by(crate::fixture::FAR - 1)).await;
    shard.make_suspect(first).await;
    shard.lease(first).await;
    assert!(rings(&shard, async || shard.die(&[first]).await).await, "a lapse");
    let owner = shard.lease(first).await;
    assert!(rings(&shard, async || shard.settle(owner, first, ack("")).await).await);
}

#[tokio::test]
async fn a_claim_rings_for_what_it_leaves_and_silences_the_bell_if_it_leaves_nothing() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let items = shard.accept_all(&Item::many("r", 3)).await;
    shard.tell(&[&"DEL", &shard.keys.bell]).await;
    assert_eq!(handles(&shard.claim(fence(worker, 1), 1).await), items[..1]);
    assert_eq!(tokens(&shard).await, 1, "another worker is woken for the rest");
    shard.claim(fence(worker, 2), 1).await;
    assert_eq!(tokens(&shard).await, 1, "one token is enough");
    shard.claim(fence(worker, 3), 1).await;
    assert_eq!(tokens(&shard).await, 0, "nobody is woken for nothing");
}
