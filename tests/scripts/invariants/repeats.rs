//! 5: every script can be sent twice with the effect of once, and the second answer tells the caller what it needs.

use holdfast_core::{
    model::{Generation, Home, Outcome, Session, Settled},
    script::{
        CancelReply, ClaimReply, Override, OverruleReply, Policy, PolicyReply, PromoteReply, Read,
        ReclaimReply, RedriveReply, Register, RegisterReply, RenewReply, Ring, SettleReply,
        SubmitReply,
    },
};

use crate::fixture::{Dump, Item, LEASE, Shard, ack, assert_same, bury, fence, release, retry};

/// What a repeat may move: the pulse, and when a session or lease was last heard of.
async fn state(shard: &Shard) -> Dump {
    let dump = shard.dump().await.without_beat(shard);
    dump.without(&shard.keys.sessions).without(&shard.keys.leased)
}

#[tokio::test]
async fn a_submit_sent_twice_is_known_the_second_time_also_within_one_call() {
    let shard = Shard::start().await;
    let items = Item::many("r", 3);
    let handles = shard.accept_all(&items).await;
    let before = shard.dump().await;
    for (reply, handle) in shard.submit(&items).await.unwrap().into_iter().zip(&handles) {
        let SubmitReply::Known(Some(Home::Pending), ticket) = reply else { panic!("{reply:?}") };
        assert_eq!(ticket.handle(handle.key()), *handle);
    }
    assert_same("a submit", &before, &shard.dump().await);

    let twice = Item::new("twice");
    let replies = shard.submit(&[twice.clone(), twice.again(), twice.clone().body("other")]).await;
    let replies = replies.unwrap();
    let [SubmitReply::Accepted(first), SubmitReply::Known(Some(Home::Pending), second), third] =
        &replies[..]
    else {
        panic!("{replies:?}")
    };
    assert_eq!(first, second);
    assert_eq!(*third, SubmitReply::Reused(Some(Home::Pending), first.clone()));
    shard.assert_whole().await;
}

#[tokio::test]
async fn other_bytes_under_a_kept_id_are_refused_in_every_home_and_nothing_is_written() {
    let shard = Shard::start().await;
    let item = Item::new("a");
    let (owner, a) = shard.running(&item).await;
    let other = item.again().body("other bytes");
    for (home, next) in
        [(Home::Leased, Some(retry(3_600_000))), (Home::Delayed, None), (Home::Finished, None)]
    {
        let before = shard.dump().await;
        let reply = shard.submit_one(&other).await;
        let SubmitReply::Reused(Some(at), ticket) = reply else { panic!("{reply:?}") };
        assert_eq!((at, ticket.generation), (home, item.generation));
        assert_same("other bytes", &before, &shard.dump().await);
        match next {
            Some(kind) => drop(shard.settle(owner, a, kind).await),
            None => drop(shard.cancel(a).await),
        }
    }
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_claim_and_a_renewal_sent_twice_only_prolong() {
    let (shard, worker) = (Shard::start().await, Session::random());
    shard.accept_all(&Item::many("r", 5)).await;
    let first = shard.claim(fence(worker, 1), 3).await;
    let before = state(&shard).await;
    let second = shard.claim(fence(worker, 1), 3).await;
    let same = |leases: &[holdfast_core::script::Lease]| {
        leases.iter().map(|lease| (lease.handle, lease.ticket.clone())).collect::<Vec<_>>()
    };
    assert_eq!(same(&first), same(&second));
    for _ in 0..2 {
        let reply = shard.renew(fence(worker, 1), first[0].handle).await;
        assert_eq!(reply, RenewReply::Held(LEASE));
    }
    assert_same("a repeat", &before, &state(&shard).await);
    assert_eq!(shard.leases().await.len(), 3);
    let stale = shard.ask(fence(worker, 0)).run(&shard.redis).await.unwrap();
    assert_eq!(stale, ClaimReply::Stale);
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_settle_sent_twice_is_already_done_also_within_one_call() {
    let shard = Shard::start().await;
    for (kind, word) in [
        (ack("done"), Settled::Ack),
        (retry(3_600_000), Settled::Retry),
        (release(true), Settled::Release),
        (bury(), Settled::Bury),
    ] {
        for one_call in [false, true] {
            let (owner, a) = shard.running(&Item::new(format!("{word:?} {one_call}"))).await;
            let item =
                holdfast_core::script::SettleItem { fence: owner, handle: a, kind: kind.clone() };
            let replies = if one_call {
                shard.settle_all(&[item.clone(), item]).await.unwrap()
            } else {
                let first = shard.settle(owner, a, kind.clone()).await;
                let before = shard.dump().await;
                let second = shard.settle(owner, a, kind.clone()).await;
                assert_same("a settle", &before, &shard.dump().await);
                vec![first, second]
            };
            assert_eq!(replies, [SettleReply::Done, SettleReply::Already(word)]);
            shard.cancel(a).await;
            shard.assert_whole().await;
        }
    }
}

#[tokio::test]
async fn a_cancel_sent_twice_tells_how_it_ended_or_that_it_is_asked() {
    let shard = Shard::start().await;
    let (_, running) = shard.running(&Item::new("running")).await;
    let waiting = shard.accept(&Item::new("waiting")).await;
    let ended = CancelReply::Ended(Outcome::Cancelled);
    assert_eq!(shard.cancel(waiting).await, CancelReply::Cancelled);
    assert_eq!(shard.cancel(running).await, CancelReply::Asked);
    let before = shard.dump().await;
    assert_eq!(shard.cancel(waiting).await, ended);
    assert_eq!(shard.cancel(running).await, CancelReply::Asked);
    assert_same("a cancel", &before, &shard.dump().await);
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_redrive_sent_twice_is_already_done_and_starts_the_request_anew() {
    let shard = Shard::start().await;
    let item = Item::new("a").by(shard.now().await + 3_600_000);
    let dead = shard.dead(&item).await;
    let (old, new) = (shard.find(dead.key()).await.unwrap().ticket, Generation::random());
    let RedriveReply::Redriven(ticket) = shard.redrive(dead, new).await else {
        panic!("not redriven");
    };
    let before = shard.dump().await;
    assert_eq!(shard.redrive(dead, new).await, RedriveReply::Already(ticket.clone()));
    assert_same("a redrive", &before, &shard.dump().await);

    assert!(ticket.sequence > old.sequence);
    assert_eq!(ticket.deadline - ticket.submitted_at, old.deadline - old.submitted_at);
    assert_eq!((ticket.attempts, ticket.lapses, ticket.forgiven), (0, 0, 0));
    assert_eq!((ticket.failure, ticket.last_settle, ticket.not_before), (None, None, 0));
    let previous = ticket.previous.unwrap();
    assert_eq!(previous.generation, item.generation);
    assert_eq!(previous.outcome, Some(Outcome::GaveUp));
    shard.assert_whole().await;
}

#[tokio::test]
async fn upkeep_sent_twice_finds_nothing_left_to_do() {
    let shard = Shard::start().await;
    let (owner, named) = shard.running(&Item::new("named")).await;
    let (other, delayed) = shard.running(&Item::new("delayed")).await;
    assert_eq!(shard.settle(other, delayed, retry(3_600_000)).await, SettleReply::Done);
    let due = shard.find(delayed.key()).await.unwrap().score;
    assert_eq!(shard.reclaim_named(&[(owner, named)]).await.len(), 1);
    assert_eq!(shard.retry_now(delayed, due).await, PromoteReply::Moved(delayed));

    let before = shard.dump().await.without_beat(&shard);
    let twice = shard.reclaim_named(&[(owner, named)]).await;
    assert_eq!(twice, [ReclaimReply::Lost(named)]);
    assert_eq!(shard.retry_now(delayed, due).await, PromoteReply::Changed(delayed));
    assert_eq!(shard.reclaim().await, []);
    assert_eq!(shard.promote().await, []);
    assert_eq!(shard.expire().await, []);
    assert_eq!(shard.sweep().await, []);
    assert_same("upkeep", &before, &shard.dump().await.without_beat(&shard));
    shard.assert_whole().await;
}

#[tokio::test]
async fn operators_and_roles_may_say_everything_twice() {
    let mut shard = Shard::start().await;
    shard.policy.max_lapses = 7;
    let policy = Policy { shard: &shard.keys, policy: &shard.policy, write: true };
    assert_eq!(policy.run(&shard.redis).await.unwrap(), PolicyReply::Written(2));
    assert_eq!(shard.decide(Override::Limit(Some(9)), 0).await, OverruleReply::Set(1));
    let row = || Register::Queue(&shard.keys.queue, shard.policy.shards);
    row().run(&shard.redis).await.unwrap();

    let before = shard.dump().await;
    assert_eq!(policy.run(&shard.redis).await.unwrap(), PolicyReply::Same(2));
    assert_eq!(shard.decide(Override::Limit(Some(9)), 0).await, OverruleReply::Already(1));
    assert!(matches!(row().run(&shard.redis).await.unwrap(), RegisterReply::Registered(_)));
    shard.depth().await;
    let read = |tick| Read { shard: &shard.keys, keys: &[], whole: usize::MAX, tick };
    read(false).run(&shard.redis).await.unwrap();
    assert_same("a repeat", &before, &shard.dump().await);

    read(true).run(&shard.redis).await.unwrap();
    let ticked = shard.dump().await.without_fields(&shard.keys.meta, &["tick"]);
    assert_same("a tick", &before, &ticked);
    let other = Register::Queue(&shard.keys.queue, 2.try_into().unwrap());
    let differs = RegisterReply::Differs("1 1".to_owned());
    assert_eq!(other.run(&shard.redis).await.unwrap(), differs, "shards never change");
    for _ in 0..100 {
        Ring { shard: &shard.keys }.run(&shard.redis).await.unwrap();
    }
    assert_eq!(shard.dump().await.of(&shard.keys.bell).len(), 64, "a bell is bounded");
}
