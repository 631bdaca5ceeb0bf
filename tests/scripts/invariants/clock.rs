//! 7: one clock, Redis' own.

use std::time::Duration;

use holdfast_core::{
    model::{Home, Session},
    script::{Claim, SettleReply},
};

use crate::fixture::{Item, LEASE, Shard, ack, fence, retry};

/// Runs a call between two looks at the server's clock.
async fn timed<T>(
    shard: &Shard,
    call: impl Future<Output = T>,
) -> (T, std::ops::RangeInclusive<u64>) {
    let from = shard.now().await;
    let answer = call.await;
    (answer, from..=shard.now().await)
}

fn later(range: &std::ops::RangeInclusive<u64>, by: Duration) -> std::ops::RangeInclusive<u64> {
    let by = by.as_millis() as u64;
    range.start() + by..=range.end() + by
}

#[tokio::test]
async fn every_time_that_a_script_writes_is_redis_time_plus_what_the_caller_said() {
    let shard = Shard::start().await;
    let item = Item::new("a");
    let (a, submitted) = timed(&shard, Box::pin(shard.accept(&item))).await;
    let ticket = async || shard.find(a.key()).await.unwrap().ticket;
    assert!(submitted.contains(&ticket().await.submitted_at));

    let (owner, claimed) = timed(&shard, Box::pin(shard.lease(a))).await;
    assert!(claimed.contains(&ticket().await.claimed_at));
    assert!(later(&claimed, LEASE).contains(&shard.leases().await[0].2));
    let (_, renewed) = timed(&shard, Box::pin(shard.renew(owner, a))).await;
    assert!(later(&renewed, LEASE).contains(&shard.leases().await[0].2));
    assert!(renewed.contains(&shard.meta("beat").await.unwrap()));

    let delay = Duration::from_secs(90);
    let (_, retried) = timed(&shard, Box::pin(shard.settle(owner, a, retry(90_000)))).await;
    let found = shard.find(a.key()).await.unwrap();
    assert!(later(&retried, delay).contains(&found.score));
    assert!(retried.contains(&found.ticket.failure.unwrap().1));
    shard.retry_now(a, found.score).await;

    let owner = shard.lease(a).await;
    let (_, ended) = timed(&shard, Box::pin(shard.settle(owner, a, ack("done")))).await;
    assert!(ended.contains(&shard.record(a.key()).await.ended_at));
    let kept = shard.find(a.key()).await.unwrap().score;
    assert!(later(&ended, shard.policy.retention).contains(&kept));
}

#[tokio::test]
async fn what_is_told_of_a_lease_is_time_left_not_a_time_of_day() {
    let shard = Shard::start().await;
    let (item, worker) = (Item::new("a").by(shard.now().await + 600_000), Session::random());
    shard.accept(&item).await;
    let claim = Claim { lease: Duration::from_secs(7), ..shard.ask(fence(worker, 1)) };
    let (claimed, range) = timed(&shard, Box::pin(shard.run(claim))).await;
    assert!(range.contains(&claimed.now));
    let lease = &claimed.leases[0];
    assert_eq!(lease.till, Duration::from_secs(7));
    assert_eq!(lease.left, Duration::from_millis(item.deadline - claimed.now));
}

#[tokio::test]
async fn not_before_and_deadline_are_kept_to_the_millisecond() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let start = shard.now().await + 150;
    let a = shard.accept(&Item::new("a").from(start)).await;
    let mut call = 0;
    let found = loop {
        call += 1;
        let claimed = shard.run(shard.ask(fence(worker, call))).await;
        if let Some(lease) = claimed.leases.first() {
            break (lease.handle, claimed.now);
        }
        assert!(claimed.now < start, "due at {start}, and not given at {}", claimed.now);
        let due = claimed.next_due.expect("it is delayed");
        assert_eq!(due, Duration::from_millis(start - claimed.now));
    };
    assert_eq!(found.0, a);
    assert!(found.1 >= start);
    let reply = shard.settle(fence(worker, call), a, ack("done")).await;
    assert_eq!((reply, shard.home(a.key()).await), (SettleReply::Done, Some(Home::Finished)));
    shard.assert_whole().await;
}
