//! A Redis that was away, and a clock that jumped.

use std::{collections::BTreeSet, time::Duration};

use holdfast_core::{
    Redis,
    model::{Handle, Home, Outcome, Session},
    script::{Charge, Claim, Depth, MAX_ITEMS, Reclaim, ReclaimReply, RenewReply},
};

use crate::fixture::{Item, LEASE, Shard, assert_same, fence, handles};

const HOUR: u64 = 3_600_000;

// 15
#[tokio::test]
async fn after_two_leases_without_redis_two_reclaimers_charge_no_lapse_to_2000_requests() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let items = shard.accept_all(&Item::many("r", 2000)).await;
    let lease = Duration::from_millis(250);
    assert_eq!(shard.reclaim().await, [], "a reclaimer passed before the outage");
    let mut held = Vec::new();
    for call in 1..=8 {
        held.extend(handles(
            &shard.run(Claim { lease, ..shard.ask(fence(worker, call)) }).await.leases,
        ));
    }
    assert_eq!(held, items);
    let away_until = shard.now().await + 500;
    shard.until(away_until).await;

    let other = shard.redis.another().unwrap();
    Depth { shard: &shard.keys }.run(&other).await.expect("it is connected");
    let (ours, theirs) = tokio::join!(all_of(&shard, &shard.redis), all_of(&shard, &other));
    let returned: BTreeSet<Handle> = ours.iter().chain(&theirs).copied().collect();
    assert_eq!(ours.len() + theirs.len(), 2000, "none is given back twice");
    assert_eq!(returned, items.iter().copied().collect());
    assert!(!ours.is_empty() && !theirs.is_empty(), "they share the work");
    let sample = shard.find(items[1999].key()).await.unwrap().ticket;
    assert_eq!((sample.lapses, sample.forgiven), (0, 1));
    shard.assert_whole().await;
}

/// Reclaims until nothing is left; each must be forgiven.
async fn all_of(shard: &Shard, redis: &Redis) -> Vec<Handle> {
    let mut returned = Vec::new();
    loop {
        let pass = Reclaim { shard: &shard.keys, limit: MAX_ITEMS, named: &[] };
        let replies = pass.run(redis).await.unwrap();
        if replies.is_empty() {
            return returned;
        }
        returned.extend(replies.iter().map(|reply| match reply {
            ReclaimReply::Returned(handle, Charge::Forgiven) => *handle,
            other => panic!("{other:?}"),
        }));
    }
}

// 16
#[tokio::test]
async fn a_lease_that_ran_out_while_redis_was_away_for_less_than_a_lease_is_not_charged() {
    let shard = Shard::start().await;
    for (tenths, charge) in [(8, Charge::Forgiven), (6, Charge::Forgiven), (4, Charge::Lapse)] {
        let (_, handle) = shard.running(&Item::new(format!("{tenths} tenths"))).await;
        shard.lapse(&[handle]).await;
        shard.set_meta("forgiven_to", 0).await;
        let away = LEASE.as_millis() as u64 / 10 * tenths;
        shard.set_meta("beat", shard.now().await - away).await;
        assert_eq!(shard.reclaim().await, [ReclaimReply::Returned(handle, charge)], "{tenths}");
        shard.cancel(handle).await;
    }
    shard.assert_whole().await;
}

// 26, back
#[tokio::test]
async fn when_the_clock_goes_an_hour_back_a_dead_workers_leases_return_a_pass_after_a_lease() {
    let (shard, lease) = (Shard::start().await, Duration::from_millis(200));
    let a = shard.accept(&Item::new("a")).await;
    let claim = Claim { lease, ..shard.ask(fence(Session::random(), 1)) };
    assert_eq!(handles(&shard.run(claim).await.leases), [a]);
    // What was written an hour from now is what a clock that went back leaves behind.
    let jumped = shard.now().await;
    shard.move_leases(|end| end + HOUR).await;
    for field in ["beat", "forgiven_to"] {
        shard.set_meta(field, jumped + HOUR).await;
    }

    assert_eq!(shard.reclaim().await, [ReclaimReply::Lowered(a)]);
    let (now, end) = (shard.now().await, shard.leases().await[0].2);
    assert!(end <= now + 200, "the lease ends by now + lease");
    assert!(shard.meta("beat").await.unwrap() <= now);
    assert!(shard.meta("forgiven_to").await.unwrap() <= now + 100);
    shard.until(end).await;
    let replies = shard.reclaim().await;
    assert!(matches!(replies[..], [ReclaimReply::Returned(..)]), "the next pass: {replies:?}");
    assert_eq!(shard.home(a.key()).await, Some(Home::Pending));
    shard.assert_whole().await;
}

// 26, back
#[tokio::test]
async fn when_the_clock_goes_back_a_renewal_lowers_beat_and_pardon_and_its_own_end() {
    let shard = Shard::start().await;
    let (fence, a) = shard.running(&Item::new("a")).await;
    let jumped = shard.now().await;
    shard.move_leases(|end| end + HOUR).await;
    for field in ["beat", "forgiven_to"] {
        shard.set_meta(field, jumped + HOUR).await;
    }
    assert_eq!(shard.renew(fence, a).await, RenewReply::Held(LEASE));
    let (now, lease) = (shard.now().await, LEASE.as_millis() as u64);
    assert!(shard.meta("beat").await.unwrap() <= now);
    assert!(shard.meta("forgiven_to").await.unwrap() <= now + lease / 2);
    assert!(shard.leases().await[0].2 <= now + lease);
}

// 26, forward
#[tokio::test]
async fn when_the_clock_leaps_an_hour_no_lapse_is_charged_for_it() {
    let shard = Shard::start().await;
    let (_, a) = shard.running(&Item::new("a")).await;
    // What was written an hour ago is what a clock that leapt leaves behind.
    shard.move_leases(|end| end - HOUR).await;
    shard.set_meta("beat", shard.now().await - HOUR).await;
    assert_eq!(shard.reclaim().await, [ReclaimReply::Returned(a, Charge::Forgiven)]);
    shard.assert_whole().await;
}

// 26, forward
#[tokio::test]
async fn a_claim_that_is_told_of_a_leap_ends_nothing_and_is_held_up_by_nothing() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let leapt_over = shard.now().await + 1500;
    let late = shard.accept(&Item::new("late").by(leapt_over)).await;
    let suspect = shard.accept(&Item::new("suspect").by(leapt_over - 1)).await;
    shard.make_suspect(suspect).await;
    shard.until(leapt_over).await;
    let resting = |call| Claim { trusted_until: 0, ..shard.ask(fence(worker, call)) };

    let before = shard.dump().await.without(&shard.keys.sessions).without(&shard.keys.bell);
    let claimed = shard.run(resting(1)).await;
    assert_eq!((claimed.leases, claimed.ended), (vec![], vec![]));
    assert!(!claimed.more, "nothing to be had by asking again at once");
    let after = shard.dump().await.without(&shard.keys.sessions).without(&shard.keys.bell);
    assert_same("a claim under a clock in doubt", &before, &after);

    let next = shard.accept(&Item::new("in time")).await;
    assert_eq!(handles(&shard.run(resting(2)).await.leases), [next]);
    let mut ended = shard.run(shard.ask(fence(worker, 3))).await.ended;
    ended.sort_by_key(|(handle, _)| handle.sequence());
    let late = [late, suspect].map(|handle| (handle, Outcome::DeadlineExceeded));
    assert_eq!(ended, late, "once the clock is believed");
    shard.assert_whole().await;
}
