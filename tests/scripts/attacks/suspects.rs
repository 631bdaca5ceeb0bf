//! Requests that kill their workers, and those beside them.

use holdfast_core::{
    model::{Handle, Home, Outcome, Session},
    script::{Charge, Claim, ReclaimReply, SettleReply},
};

use crate::fixture::{FAR, Item, Shard, ack, fence, handles};

/// One worker process after another takes 64 requests of one deadline, and dies whenever it holds the killer, or else
/// answers what it holds. `die` says how the reclaimer meets the leases of a dead one. Gives back killer and innocents.
async fn one_killer_among_64(shard: &Shard, die: impl AsyncFn(&[Handle])) -> (Handle, Vec<Handle>) {
    let mut innocents = shard.accept_all(&Item::many("r", 64)).await;
    let killer = innocents.remove(20);
    for _ in 0..200 {
        let worker = fence(Session::random(), 1);
        let leases = shard.claim(worker, 64).await;
        let suspects = leases.iter().filter(|lease| lease.ticket.as_ref().unwrap().is_suspect());
        assert!(suspects.count() <= 1, "two suspects of a shard run at once");
        let held = handles(&leases);
        if held.is_empty() {
            return (killer, innocents);
        } else if held.contains(&killer) {
            die(&held).await;
        } else {
            for handle in held {
                assert_eq!(shard.settle(worker, handle, ack("done")).await, SettleReply::Done);
            }
        }
    }
    panic!("no end in 200 processes");
}

/// Each innocent is answered, after at most three lapses, forgiven ones counted.
async fn answered_after_three_lapses_at_most(shard: &Shard, innocents: &[Handle]) {
    for handle in innocents {
        let record = shard.record(handle.key()).await;
        assert_eq!(record.outcome, Outcome::Answered);
        assert!(record.lapses + record.forgiven <= 3, "{record:?}");
    }
    shard.assert_whole().await;
}

// 12
#[tokio::test]
async fn a_killer_dies_at_its_fifth_lapse_and_takes_none_of_the_63_beside_it() {
    let shard = Shard::start().await;
    let died = async |held: &[Handle]| drop(shard.die(held).await);
    let (killer, innocents) = one_killer_among_64(&shard, died).await;

    let record = shard.record(killer.key()).await;
    assert_eq!((record.outcome, record.lapses, record.attempts), (Outcome::KilledWorkers, 5, 5));
    assert_eq!(shard.home(killer.key()).await, Some(Home::Dead));
    answered_after_three_lapses_at_most(&shard, &innocents).await;
}

// 13
#[tokio::test]
async fn a_killer_that_takes_the_reclaimer_along_dies_too_and_none_of_the_63_beside_it() {
    let shard = Shard::start().await;
    // Nobody passes while the process is down, so its leases are forgiven: 4 × max_lapses of these are the end as well.
    let died = async |held: &[Handle]| {
        shard.outage(held).await;
        assert_eq!(shard.reclaim().await.len(), held.len());
    };
    let (killer, innocents) = one_killer_among_64(&shard, died).await;

    let record = shard.record(killer.key()).await;
    assert_eq!((record.outcome, record.lapses, record.forgiven), (Outcome::KilledWorkers, 0, 20));
    answered_after_three_lapses_at_most(&shard, &innocents).await;
}

// 13
#[tokio::test]
async fn a_killer_whose_reclaimer_is_sometimes_down_dies_at_its_fifth_lapse_all_the_same() {
    let shard = Shard::start().await;
    let deaths = std::cell::Cell::new(0);
    let died = async |held: &[Handle]| {
        deaths.set(deaths.get() + 1);
        if deaths.get() % 2 == 0 {
            shard.outage(held).await
        } else {
            shard.lapse(held).await
        }
        assert_eq!(shard.reclaim().await.len(), held.len());
        // The pardon that an outage brings is over before the next process dies.
        shard.set_meta("forgiven_to", 0).await;
    };
    let (killer, innocents) = one_killer_among_64(&shard, died).await;

    let record = shard.record(killer.key()).await;
    assert_eq!((record.outcome, record.lapses, record.forgiven), (Outcome::KilledWorkers, 5, 4));
    answered_after_three_lapses_at_most(&shard, &innocents).await;
}

// 14
#[tokio::test]
async fn a_worker_that_asks_for_suspects_in_one_claim_at_a_time_never_holds_two_of_two_shards() {
    let one = Shard::start().await;
    let two = one.beside(1).await;
    let [killer, innocent] =
        [one.accept(&Item::new("killer")).await, two.accept(&Item::new("b")).await];
    one.make_suspect(killer).await;
    two.make_suspect(innocent).await;

    let worker = Session::random();
    assert_eq!(handles(&one.claim(fence(worker, 1), 4).await), [killer]);
    let apart = |call| Claim { may_take_suspect: false, ..two.ask(fence(worker, call)) };
    let claimed = two.run(apart(1)).await;
    assert_eq!(
        (claimed.leases, claimed.more),
        (vec![], false),
        "held, and nothing to ask for again"
    );
    // It dies of the killer; the innocent one was not with it.
    assert_eq!(one.die(&[killer]).await, [ReclaimReply::Returned(killer, Charge::Lapse)]);
    assert_eq!(two.find(innocent.key()).await.unwrap().ticket.lapses, 2);
    assert_eq!(handles(&two.claim(fence(worker, 2), 4).await), [innocent]);
    for shard in [&one, &two] {
        shard.assert_whole().await;
    }
}

// 14
#[tokio::test]
async fn no_second_suspect_of_a_shard_is_leased_until_the_first_is_settled_or_lapsed() {
    let shard = Shard::start().await;
    let second = shard.accept(&Item::new("second")).await;
    shard.make_suspect(second).await;
    let first = shard.accept(&Item::new("first").by(FAR - 1)).await;
    shard.make_suspect(first).await;

    let owner = shard.lease(first).await;
    assert_eq!(shard.claim(fence(Session::random(), 1), 4).await, [], "the other one waits");
    assert_eq!(shard.settle(owner, first, ack("harmless")).await, SettleReply::Done);
    let worker = shard.lease(second).await;
    assert_eq!(shard.leases().await[0].0, worker);
    shard.die(&[second]).await;
    shard.lease(second).await;
    shard.assert_whole().await;
}
