//! Retry-now and release: one request, as its operator saw it.

use holdfast_core::{
    model::{Home, Session},
    operate::{ActError, Target, lease_rows, release, retry_now, worker_rows},
    script::{Register, RenewReply, SettleReply},
};

use super::{identity, queue};
use crate::fixture::{Item, Shard, ack, assert_same, fence, retry};

#[tokio::test]
async fn a_back_off_is_pulled_forward_unless_a_later_one_stands() {
    let shard = Shard::start().await;
    let (queue, a) = (queue(&shard), identity("a"));
    let target = Target { queue: &queue, identity: &a };
    let (owner, handle) = shard.running(&Item::new("a")).await;
    shard.settle(owner, handle, retry(60_000)).await;
    let due = shard.find(handle.key()).await.unwrap().score;

    let before = shard.dump().await;
    let told = retry_now(&shard.redis, target, None, true).await.unwrap();
    assert_eq!((told.outcome.as_str(), told.due.map(|due| due.0)), ("dry-run", Some(due)));
    let other = retry_now(&shard.redis, target, Some(due + 1), false).await;
    assert!(matches!(other, Err(ActError::Elsewhere(_))), "{other:?}");
    assert_same("a dry run and another due time", &before, &shard.dump().await);

    let told = retry_now(&shard.redis, target, Some(due), false).await.unwrap();
    assert_eq!((told.outcome.as_str(), told.before.as_str()), ("moved", "delayed"));
    assert_eq!(shard.home(handle.key()).await, Some(Home::Pending));
    let again = retry_now(&shard.redis, target, Some(due), false).await.unwrap_err();
    assert_eq!(again.to_string(), "it is pending, not delayed: nothing to pull forward");
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_released_lease_is_lost_to_its_owner_and_charged_to_nobody() {
    let shard = Shard::start().await;
    let (queue, a) = (queue(&shard), identity("a"));
    let target = Target { queue: &queue, identity: &a };
    let (owner, handle) = shard.running(&Item::new("a")).await;

    let before = shard.dump().await;
    let other = release(&shard.redis, target, Some(fence(Session::random(), 9)), false).await;
    assert!(matches!(other, Err(ActError::Elsewhere(_))), "{other:?}");
    let told = release(&shard.redis, target, Some(owner), true).await.unwrap();
    assert_eq!((told.outcome.as_str(), told.fence), ("dry-run", Some(owner.to_string())));
    assert_same("another fence and a dry run", &before, &shard.dump().await);

    let told = release(&shard.redis, target, Some(owner), false).await.unwrap();
    assert_eq!(told.outcome, "returned");
    let ticket = shard.find(handle.key()).await.unwrap().ticket;
    assert_eq!((ticket.lapses, ticket.forgiven, ticket.attempts), (0, 0, 1));
    assert_eq!(shard.renew(owner, handle).await, RenewReply::Lost);
    assert_eq!(shard.settle(owner, handle, ack("late")).await, SettleReply::Fenced);
    let heir = shard.lease(handle).await;
    let late = release(&shard.redis, target, Some(owner), false).await;
    assert!(matches!(late, Err(ActError::Elsewhere(_))), "the heir's lease stands: {late:?}");
    assert_eq!(shard.settle(heir, handle, ack("done")).await, SettleReply::Done);
    let over = release(&shard.redis, target, None, false).await.unwrap_err();
    assert_eq!(over.to_string(), "it is finished, not leased: nothing to release");
    shard.assert_whole().await;
}

#[tokio::test]
async fn the_release_of_what_is_cancelled_ends_it() {
    let shard = Shard::start().await;
    let (queue, a) = (queue(&shard), identity("a"));
    let (_, handle) = shard.running(&Item::new("a")).await;
    shard.cancel(handle).await;
    let target = Target { queue: &queue, identity: &a };
    let told = release(&shard.redis, target, None, false).await.unwrap();
    assert_eq!(told.outcome, "cancelled");
    let nobody = identity("b");
    let target = Target { queue: &queue, identity: &nobody };
    assert!(matches!(release(&shard.redis, target, None, false).await, Err(ActError::Unknown)));
}

#[tokio::test]
async fn workers_are_listed_with_what_each_holds() {
    let shard = Shard::start().await;
    let (busy, idle) = (Session::random(), Session::random());
    for (session, name) in [(busy, "busy"), (idle, "idle")] {
        let text = format!("{{\"name\":\"{name}\",\"version\":\"1.2\",\"concurrency\":8}}");
        Register::Worker(session, &text).run(&shard.redis).await.unwrap();
    }
    shard.accept_all(&Item::many("r", 3)).await;
    shard.claim(fence(busy, 1), 2).await;
    let queues = [queue(&shard)];
    let rows = worker_rows(&shard.redis, &queues).await.unwrap();
    let held = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
    assert_eq!((held("busy").leases, held("idle").leases, rows.len()), (2, 0, 2));
    let row = held("busy");
    assert_eq!((row.version.as_deref(), row.concurrency), (Some("1.2"), Some(8)));
    assert!(row.seen_seconds_ago.0 < 20_000);

    let leases = lease_rows(&shard.redis, &queues, 1).await.unwrap();
    assert_eq!((leases.rows.len(), leases.more), (1, true));
    let row = &leases.rows[0];
    assert_eq!(
        (row.worker.as_deref(), row.fence.clone()),
        (Some("busy"), fence(busy, 1).to_string())
    );
}
