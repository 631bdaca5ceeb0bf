//! Pause and limits, as claim and submit keep them.

use holdfast_core::{
    model::{Session, share},
    script::{FullOf, Override, OverruleReply, Policy, PolicyReply, SettleReply, SubmitReply},
};

use crate::fixture::{Item, Shard, ack, fence, handles};

#[tokio::test]
async fn a_paused_shard_leases_nothing_until_it_is_resumed() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let items = shard.accept_all(&Item::many("r", 2)).await;
    let owner = shard.lease(items[0]).await;
    assert_eq!(shard.decide(Override::Paused(true), 0).await, OverruleReply::Set(1));
    let claimed = shard.run(shard.ask(fence(worker, 1))).await;
    assert_eq!((claimed.leases, claimed.more), (vec![], false));
    assert!(shard.depth().await.paused);
    let done = shard.settle(owner, items[0], ack("what runs goes on")).await;
    assert_eq!(done, SettleReply::Done);
    assert_eq!(shard.decide(Override::Paused(false), 1).await, OverruleReply::Set(2));
    assert_eq!(handles(&shard.claim(fence(worker, 2), 4).await), [items[1]]);
    shard.assert_whole().await;
}

#[tokio::test]
async fn no_more_is_leased_over_all_workers_than_the_policy_lets_run() {
    let shard = Shard::with(|policy| policy.in_flight = Some(3)).await;
    let items = shard.accept_all(&Item::many("r", 6)).await;
    let [one, two] = [Session::random(), Session::random()];
    assert_eq!(handles(&shard.claim(fence(one, 1), 2).await), items[..2]);
    let claimed = shard.run(shard.ask(fence(two, 1))).await;
    assert_eq!(handles(&claimed.leases), [items[2]]);
    assert!(!claimed.more, "nothing to be had by asking again");
    assert_eq!(shard.claim(fence(two, 2), 4).await, []);
    assert_eq!(shard.settle(fence(one, 1), items[0], ack("done")).await, SettleReply::Done);
    assert_eq!(handles(&shard.claim(fence(two, 3), 4).await), [items[3]]);
    shard.assert_whole().await;
}

#[tokio::test]
async fn an_operators_limit_wins_until_it_is_cleared_also_over_a_new_policy() {
    let mut shard = Shard::with(|policy| policy.in_flight = Some(3)).await;
    let items = shard.accept_all(&Item::many("r", 6)).await;
    let worker = Session::random();
    assert_eq!(shard.decide(Override::Limit(Some(1)), 0).await, OverruleReply::Set(1));
    shard.policy.in_flight = Some(4);
    Policy { shard: &shard.keys, policy: &shard.policy, write: true }
        .run(&shard.redis)
        .await
        .unwrap();
    assert_eq!(handles(&shard.claim(fence(worker, 1), 9).await), items[..1]);
    assert_eq!(shard.depth().await.limit, Some(1));
    assert_eq!(shard.decide(Override::Limit(None), 1).await, OverruleReply::Set(2));
    assert_eq!(handles(&shard.claim(fence(worker, 2), 9).await), items[1..4]);
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_lapse_frees_a_place_under_the_limit_and_tells_who_sleeps() {
    let shard = Shard::with(|policy| (policy.in_flight, policy.max_lapses) = (Some(1), 1)).await;
    let (_, last) = shard.running(&Item::new("at its last lapse")).await;
    let next = shard.accept(&Item::new("next")).await;
    assert_eq!(shard.claim(fence(Session::random(), 1), 1).await, []);
    shard.tell(&[&"DEL", &shard.keys.bell]).await;
    shard.die(&[last]).await;
    assert!(shard.home(last.key()).await.unwrap().is_end());
    assert_eq!(shard.dump().await.of(&shard.keys.bell).len(), 1, "the bell rings");
    shard.lease(next).await;
}

#[tokio::test]
async fn a_queue_takes_in_no_more_requests_and_bytes_than_it_may_hold() {
    let shard = Shard::with(|policy| policy.capacity = 2).await;
    let items = shard.accept_all(&Item::many("r", 2)).await;
    let full = shard.submit_one(&Item::new("one more")).await;
    assert_eq!(full, SubmitReply::Full(FullOf::Requests));
    shard.cancel(items[0]).await;
    shard.accept(&Item::new("one more")).await;
    shard.assert_whole().await;

    let shard = Shard::with(|policy| policy.capacity_bytes = 4000).await;
    let large = Item::new("large").body(vec![b'x'; 3900]);
    let kept = shard.accept(&large).await;
    let before = shard.dump().await;
    let full = shard.submit_one(&Item::new("small").body(vec![b'x'; 90])).await;
    assert_eq!(full, SubmitReply::Full(FullOf::Bytes));
    crate::fixture::assert_same("a refused submit", &before, &shard.dump().await);
    // A finished request gives back its body's room; its record takes little.
    shard.cancel(kept).await;
    shard.accept(&Item::new("small").body(vec![b'x'; 90])).await;
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_limit_split_over_shards_is_kept_in_each() {
    let policy = |shards: u32| std::num::NonZeroU32::new(shards).unwrap();
    let first = Shard::with(|it| (it.in_flight, it.shards) = (Some(5), policy(3))).await;
    for number in 0..3 {
        let beside = first.beside(number + 10).await;
        let shard = if number == 0 { &first } else { &beside };
        shard.accept_all(&Item::many("r", 5)).await;
        let leased = shard.claim(fence(Session::random(), 1), 5).await.len() as u64;
        assert_eq!(leased, share(5, shard.keys.shard, policy(3)), "shard {}", shard.keys.shard);
    }
}

#[tokio::test]
async fn a_shard_of_a_newer_schema_is_left_alone() {
    let shard = Shard::start().await;
    shard.set_meta("schema", 2).await;
    let before = shard.dump().await;
    let policy = Policy { shard: &shard.keys, policy: &shard.policy, write: true };
    assert_eq!(policy.run(&shard.redis).await.unwrap(), PolicyReply::Newer(2));
    crate::fixture::assert_same("a refused policy", &before, &shard.dump().await);
}

#[tokio::test]
async fn a_queue_that_redis_forgot_takes_nothing_in_until_its_policy_is_written() {
    let shard = Shard::start().await;
    shard.tell(&[&"FLUSHDB"]).await;
    let item = Item::new("a");
    assert_eq!(shard.submit_one(&item).await, SubmitReply::Undeclared);
    assert_eq!(shard.dump().await.of(&shard.keys.meta).len(), 0, "nothing was written");
    let policy = Policy { shard: &shard.keys, policy: &shard.policy, write: true };
    policy.run(&shard.redis).await.unwrap();
    shard.accept(&item).await;
    shard.assert_whole().await;
}

#[tokio::test]
async fn who_looks_at_a_policy_is_told_of_another_and_who_starts_last_wins() {
    let mut shard = Shard::start().await;
    shard.policy.max_lapses = 9;
    let policy = |write| Policy { shard: &shard.keys, policy: &shard.policy, write };
    let before = shard.dump().await;
    assert_eq!(policy(false).run(&shard.redis).await.unwrap(), PolicyReply::Differs(1));
    crate::fixture::assert_same("a look", &before, &shard.dump().await);
    assert_eq!(policy(true).run(&shard.redis).await.unwrap(), PolicyReply::Written(2));
    assert_eq!(shard.meta("max_lapses").await, Some(9));
}

#[tokio::test]
async fn a_limit_that_left_the_settings_limits_nothing_any_more() {
    let mut shard = Shard::with(|policy| policy.in_flight = Some(1)).await;
    let items = shard.accept_all(&Item::many("r", 3)).await;
    shard.policy.in_flight = None;
    let policy = Policy { shard: &shard.keys, policy: &shard.policy, write: true };
    assert_eq!(policy.run(&shard.redis).await.unwrap(), PolicyReply::Written(2));
    let claimed = shard.claim(fence(Session::random(), 1), 9).await;
    assert_eq!(handles(&claimed), items);
    shard.assert_whole().await;
}
