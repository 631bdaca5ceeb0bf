//! Claims that are repeated, late, or never heard of.

use std::time::Duration;

use holdfast_core::{
    model::{Home, Outcome, Session},
    script::{CancelReply, Claim, ClaimReply, Override, Renew, RenewReply, SettleReply},
};
use holdfast_testkit::eventually;

use crate::fixture::{Item, LEASE, LIMIT, Shard, ack, assert_same, fence, handles};

/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(120);

// 1
#[tokio::test]
async fn a_late_claim_with_an_earlier_number_is_stale_and_leases_nothing() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let items = shard.accept_all(&Item::many("r", 3)).await;
    assert_eq!(handles(&shard.claim(fence(worker, 5), 1).await), [items[0]]);
    assert_eq!(handles(&shard.claim(fence(worker, 6), 1).await), [items[1]]);

    let before = shard.dump().await;
    let late = shard.ask(fence(worker, 5)).run(&shard.redis).await.unwrap();
    assert_eq!(late, ClaimReply::Stale);
    assert_same("a stale claim", &before, &shard.dump().await);
    let row = &before.of(&shard.keys.sessions)[worker.to_string().as_bytes()];
    assert!(row.starts_with(b"0000000000000006"), "{}", row.escape_ascii());
    assert_eq!(handles(&shard.claim(fence(worker, 6), 1).await), [items[1]], "6 is still the last");
    shard.assert_whole().await;
}

// 2
#[tokio::test]
async fn a_claim_that_found_nothing_finds_nothing_however_often_it_comes_again() {
    let (shard, worker) = (Shard::start().await, Session::random());
    assert_eq!(shard.claim(fence(worker, 5), 4).await, []);
    let a = shard.accept(&Item::new("a")).await;
    for copy in ["late", "repeated"] {
        let claimed = shard.run(shard.ask(fence(worker, 5))).await;
        assert_eq!(claimed.leases, [], "{copy}");
        assert!(claimed.more, "{copy}: the worker is told to ask under its next number");
        assert_eq!(shard.home(a.key()).await, Some(Home::Pending), "{copy}");
    }
    assert_eq!(handles(&shard.claim(fence(worker, 6), 4).await), [a]);
    shard.assert_whole().await;
}

// 3
#[tokio::test]
async fn a_repeated_claim_gives_the_same_leases_renewed_also_when_paused_or_at_the_limit() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let items = shard.accept_all(&Item::many("r", 3)).await;
    assert_eq!(handles(&shard.claim(fence(worker, 5), 2).await), items[..2]);
    shard.decide(Override::Paused(true), 0).await;
    shard.decide(Override::Limit(Some(1)), 0).await;
    assert_eq!(shard.cancel(items[1]).await, CancelReply::Asked);
    let soon = shard.now().await + 500;
    shard.move_leases(|_| soon).await;

    let again = shard.claim(fence(worker, 5), 2).await;
    assert_eq!(handles(&again), items[..2]);
    assert!(again.iter().all(|lease| lease.till == LEASE), "{again:?}");
    assert_eq!([again[0].cancel_asked, again[1].cancel_asked], [false, true]);
    assert!(shard.leases().await.iter().all(|(_, _, end)| *end > soon + 1000), "renewed");
    assert_eq!(again[0].ticket.as_ref().unwrap().attempts, 1, "no attempt more");
    shard.assert_whole().await;
}

// 4
#[tokio::test]
async fn a_repeated_claim_gives_nothing_that_was_settled_or_went_to_another() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let items = shard.accept_all(&Item::many("r", 2)).await;
    assert_eq!(handles(&shard.claim(fence(worker, 5), 2).await), items);
    let done = shard.settle(fence(worker, 5), items[0], ack("done")).await;
    assert_eq!(done, SettleReply::Done);
    shard.die(&items[1..]).await;
    shard.lease(items[1]).await;

    let before = shard.dump().await.without(&shard.keys.sessions);
    assert_eq!(shard.claim(fence(worker, 5), 2).await, []);
    assert_same("a claim", &before, &shard.dump().await.without(&shard.keys.sessions));
    shard.assert_whole().await;
}

// 5
#[tokio::test]
async fn a_claim_repeated_for_ever_holds_nothing_past_deadline_and_lease() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let deadline = shard.now().await + 1500;
    let last = deadline + SHORT.as_millis() as u64;
    let a = shard.accept(&Item::new("a").by(deadline)).await;
    let repeat = || Claim { lease: SHORT, ..shard.ask(fence(worker, 5)) };
    assert_eq!(handles(&shard.run(repeat()).await.leases), [a]);

    let until_nothing = async || {
        let leases = shard.run(repeat()).await.leases;
        assert!(shard.leases().await.iter().all(|(_, _, end)| *end <= last));
        if leases.is_empty() { Ok(()) } else { Err("still held") }
    };
    eventually("the claim gives nothing any more", LIMIT, until_nothing).await;
    assert!(shard.now().await >= last);
    ends_late(&shard, a.key()).await;
}

// 6
#[tokio::test]
async fn a_worker_that_only_renews_holds_nothing_past_deadline_and_lease() {
    let shard = Shard::start().await;
    let deadline = shard.now().await + 1500;
    let last = deadline + SHORT.as_millis() as u64;
    let (a, fence) =
        (shard.accept(&Item::new("a").by(deadline)).await, fence(Session::random(), 1));
    let claim = Claim { lease: SHORT, ..shard.ask(fence) };
    assert_eq!(handles(&shard.run(claim).await.leases), [a]);

    let until_lost = async || {
        let renew = Renew { shard: &shard.keys, lease: SHORT, held: &[(fence, a)] };
        let reply = renew.run(&shard.redis).await.unwrap().remove(0);
        assert!(shard.leases().await.iter().all(|(_, _, end)| *end <= last));
        if reply == RenewReply::Lost { Ok(()) } else { Err("still held") }
    };
    eventually("the lease is lost", LIMIT, until_lost).await;
    assert!(shard.now().await >= last);
    ends_late(&shard, a.key()).await;
}

/// A reclaimer comes by and ends it, since its deadline has passed.
async fn ends_late(shard: &Shard, key: holdfast_core::model::Key) {
    assert_eq!(shard.reclaim().await.len(), 1);
    assert_eq!(shard.outcome(key).await, Outcome::DeadlineExceeded);
    shard.assert_whole().await;
}
