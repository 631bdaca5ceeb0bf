//! Limits of a lane, as submit keeps them: a tenant's requests, bytes and rate.

use holdfast_core::script::{LaneLimits, LimitOf, SubmitReply};

use crate::fixture::{Item, Shard, ack, assert_same};

const TWO: LaneLimits = LaneLimits { requests: Some(2), bytes: None, rate: None };

#[tokio::test]
async fn a_lane_takes_in_no_more_requests_than_it_may_hold_and_is_in_nobodys_way() {
    let shard = Shard::start().await;
    let noisy = |id: String| Item::new(id).lane("noisy").limited(TWO);
    let items: Vec<Item> = (0..4).map(|it| noisy(format!("r{it}"))).collect();
    let replies = shard.submit(&items).await.unwrap();
    let accepted = replies.iter().filter(|it| matches!(it, SubmitReply::Accepted(_))).count();
    assert_eq!((accepted, &replies[2]), (2, &SubmitReply::Over(LimitOf::Requests)));

    let before = shard.dump().await;
    assert_eq!(shard.submit_one(&items[3]).await, SubmitReply::Over(LimitOf::Requests));
    assert_same("a submit over the limit", &before, &shard.dump().await);
    // The id rule comes first, and whoever is in another lane is let in.
    assert!(matches!(shard.submit_one(&items[0].again()).await, SubmitReply::Known(..)));
    shard.accept(&Item::new("quiet").lane("quiet").limited(TWO)).await;
    shard.accept(&Item::new("without a limit").lane("noisy")).await;
    shard.assert_whole().await;

    // What runs counts; what has ended does not.
    let first = shard.find(items[0].key()).await.unwrap().ticket.handle(items[0].key());
    let owner = shard.lease(first).await;
    assert_eq!(shard.submit_one(&items[3]).await, SubmitReply::Over(LimitOf::Requests));
    shard.settle(owner, first, ack("done")).await;
    assert_eq!(shard.submit_one(&items[3]).await, SubmitReply::Over(LimitOf::Requests), "3 - 1");
    let second = shard.find(items[1].key()).await.unwrap().ticket.handle(items[1].key());
    shard.cancel(second).await;
    shard.accept(&items[3]).await;
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_lane_takes_in_no_more_bytes_than_it_may_hold() {
    let shard = Shard::start().await;
    let limits = LaneLimits { bytes: Some(4000), ..LaneLimits::default() };
    let large = Item::new("large").body(vec![b'x'; 3900]).limited(limits);
    let kept = shard.accept(&large).await;
    let small = Item::new("small").body(vec![b'x'; 90]).limited(limits);
    let before = shard.dump().await;
    assert_eq!(shard.submit_one(&small).await, SubmitReply::Over(LimitOf::Bytes));
    assert_same("a submit over the limit", &before, &shard.dump().await);
    shard.cancel(kept).await;
    shard.accept(&small).await;
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_rate_lets_a_seconds_worth_in_at_once_and_then_as_much_as_time_brings() {
    let shard = Shard::start().await;
    let limits = LaneLimits { rate: Some(3), ..LaneLimits::default() };
    let item = |id: &str| Item::new(id).limited(limits);
    let items: Vec<Item> = ["a", "b", "c", "d"].map(item).into();
    let replies = shard.submit(&items).await.unwrap();
    assert!(replies[..3].iter().all(|it| matches!(it, SubmitReply::Accepted(_))), "{replies:?}");
    assert_eq!(replies[3], SubmitReply::Over(LimitOf::Rate));
    assert!(matches!(shard.submit_one(&items[0].again()).await, SubmitReply::Known(..)));

    // A third of a second later there is room for one.
    let passes = async |ms: i64| {
        let used = shard.dump().await.of(&shard.keys.lanes)[b"r|t".as_slice()].clone();
        let used: i64 = String::from_utf8(used).unwrap().parse().unwrap();
        shard.tell(&[&"HSET", &shard.keys.lanes, &"r|t", &(used - 1000 * ms).to_string()]).await;
    };
    passes(334).await;
    shard.accept(&items[3]).await;
    assert_eq!(shard.submit_one(&item("e")).await, SubmitReply::Over(LimitOf::Rate));
    // The clock goes back by an hour: nobody waits for that.
    passes(-3_600_000).await;
    shard.accept(&item("e")).await;
    shard.assert_whole().await;
}

#[test]
fn a_limit_is_split_over_the_shards_of_a_queue_and_none_is_left_without() {
    let shards = std::num::NonZeroU32::new(3).unwrap();
    let limits = LaneLimits { requests: Some(7), bytes: Some(3), rate: None };
    let parts: Vec<LaneLimits> = (0..3).map(|shard| limits.part(shard, shards)).collect();
    let sum = |of: fn(&LaneLimits) -> Option<u64>| parts.iter().filter_map(of).sum::<u64>();
    assert_eq!((sum(|it| it.requests), sum(|it| it.bytes)), (7, 3));
    assert!(
        parts.iter().all(|it| it.requests > Some(1) && it.bytes == Some(1) && it.rate.is_none())
    );
}
