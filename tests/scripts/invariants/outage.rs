//! 15: an outage is nobody's fault, for a while.

use holdfast_core::{
    model::{Home, Outcome},
    script::{Charge, ReclaimReply, RenewReply},
};

use crate::fixture::{Item, LEASE, Shard};

#[tokio::test]
async fn whichever_call_comes_first_after_an_outage_pardons_what_ran_out_meanwhile() {
    for renewal_first in [false, true] {
        let shard = Shard::start().await;
        let (_, dead) = shard.running(&Item::new("dead")).await;
        let (fence, alive) = shard.running(&Item::new("alive")).await;
        shard.outage(&[dead]).await;
        let from = shard.now().await;
        if renewal_first {
            assert_eq!(shard.renew(fence, alive).await, RenewReply::Held(LEASE));
        }
        let charged = ReclaimReply::Returned(dead, Charge::Forgiven);
        assert_eq!(shard.reclaim().await, [charged], "renewal first: {renewal_first}");
        let pardon = shard.meta("forgiven_to").await.unwrap();
        let half = LEASE.as_millis() as u64 / 2;
        assert!((from + half..=shard.now().await + half).contains(&pardon));
        shard.assert_whole().await;
    }
}

#[tokio::test]
async fn a_lease_that_ends_by_the_pardon_is_forgiven_and_one_that_ends_after_it_is_charged() {
    let shard = Shard::start().await;
    let [(_, early), (_, late)] =
        [shard.running(&Item::new("early")).await, shard.running(&Item::new("late")).await];
    let now = shard.now().await;
    shard.set_meta("beat", now).await;
    shard.set_meta("forgiven_to", now - 10).await;
    shard.move_leases_of(&[early], |_| now - 10).await;
    shard.move_leases_of(&[late], |_| now - 9).await;
    let replies = shard.reclaim().await;
    assert!(replies.contains(&ReclaimReply::Returned(early, Charge::Forgiven)), "{replies:?}");
    assert!(replies.contains(&ReclaimReply::Returned(late, Charge::Lapse)), "{replies:?}");
    let ticket = shard.find(early.key()).await.unwrap().ticket;
    assert_eq!((ticket.lapses, ticket.forgiven), (0, 1));
    shard.assert_whole().await;
}

#[tokio::test]
async fn four_times_max_lapses_forgiven_ones_end_a_request_as_well() {
    let shard = Shard::with(|policy| policy.max_lapses = 4).await;
    let a = shard.accept(&Item::new("a")).await;
    for forgiven in 1..=16 {
        shard.lease(a).await;
        shard.outage(&[a]).await;
        let home = match forgiven {
            1..3 => Home::Pending,
            3..16 => Home::Suspects,
            _ => Home::Dead,
        };
        assert_eq!(shard.reclaim().await.len(), 1);
        assert_eq!(shard.home(a.key()).await, Some(home), "after {forgiven}");
    }
    let record = shard.record(a.key()).await;
    assert_eq!((record.outcome, record.lapses, record.forgiven), (Outcome::KilledWorkers, 0, 16));
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_lease_that_an_operator_ends_is_charged_nothing() {
    let shard = Shard::start().await;
    let (fence, a) = shard.running(&Item::new("a")).await;
    let reply = shard.reclaim_named(&[(fence, a)]).await;
    assert_eq!(reply, [ReclaimReply::Returned(a, Charge::None)]);
    let ticket = shard.find(a.key()).await.unwrap().ticket;
    assert_eq!((ticket.lapses, ticket.forgiven), (0, 0));
    assert_eq!(shard.renew(fence, a).await, RenewReply::Lost);
    shard.assert_whole().await;
}

#[tokio::test]
async fn the_longest_lease_decides_what_an_outage_is() {
    let shard = Shard::start().await;
    assert_eq!(shard.meta("longest_lease").await, None);
    let (_, a) = shard.running(&Item::new("a")).await;
    assert_eq!(shard.meta("longest_lease").await, Some(LEASE.as_millis() as u64));
    let short = std::time::Duration::from_secs(1);
    let b = shard.accept(&Item::new("b")).await;
    let claim = |lease, number| {
        let session = holdfast_core::model::Session::random();
        holdfast_core::script::Claim {
            lease,
            free: 1,
            ..shard.ask(crate::fixture::fence(session, number))
        }
    };
    shard.run(claim(short, 1)).await;
    assert_eq!(shard.meta("longest_lease").await, Some(60_000), "a longer one runs");
    shard.die(&[a, b]).await;
    shard.run(claim(short, 1)).await;
    assert_eq!(shard.meta("longest_lease").await, Some(1000), "nothing else is leased");
}
