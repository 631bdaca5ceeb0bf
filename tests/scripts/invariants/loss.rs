//! 4: nothing is lost.

use holdfast_core::{
    model::{Handle, Home, Outcome, Session},
    script::{Policy, PolicyReply, SettleReply, SubmitReply},
};
use holdfast_testkit::eventually;

use crate::fixture::{FAR, Item, LIMIT, Shard, ack, fence, handles, retry};

/// One request in each live home, and nobody who would work on it. All but the first are late soon.
async fn abandoned(shard: &Shard) -> (Handle, Vec<Handle>) {
    let soon = shard.now().await + 2000;
    let worker = Session::random();
    let running = shard.accept(&Item::new("running").by(soon)).await;
    let flagged = shard.accept(&Item::new("flagged")).await;
    assert_eq!(handles(&shard.claim(fence(worker, 1), 2).await), [running, flagged]);
    shard.cancel(flagged).await;
    let suspect = shard.accept(&Item::new("suspect").by(soon)).await;
    shard.make_suspect(suspect).await;
    let (owner, retried) = shard.running(&Item::new("retried").by(soon - 1)).await;
    assert_eq!(shard.settle(owner, retried, retry(50)).await, SettleReply::Done);
    let delayed = shard.accept(&Item::new("delayed").by(soon).from(soon - 100)).await;
    let pending = shard.accept(&Item::new("pending").by(soon)).await;
    shard.move_leases(|_| soon).await;
    shard.assert_whole().await;
    (flagged, vec![running, suspect, retried, delayed, pending])
}

#[tokio::test]
async fn a_reclaimer_alone_brings_whatever_is_abandoned_to_its_record() {
    let shard = Shard::start().await;
    let (flagged, late) = abandoned(&shard).await;
    let all_ended = async || {
        shard.reclaim().await;
        shard.promote().await;
        shard.expire().await;
        let live = live(&shard, late.iter().chain([&flagged])).await;
        if live.is_empty() { Ok(()) } else { Err(format!("{live:?}")) }
    };
    eventually("all have ended", LIMIT, all_ended).await;
    assert_eq!(shard.outcome(flagged.key()).await, Outcome::Cancelled);
    for handle in late {
        assert_eq!(shard.outcome(handle.key()).await, Outcome::DeadlineExceeded);
    }
    shard.assert_whole().await;
}

#[tokio::test]
async fn without_a_reclaimer_claims_bring_what_waits_to_its_record() {
    let shard = Shard::start().await;
    let (_, late) = abandoned(&shard).await;
    let waiting = &late[1..];
    let (worker, mut call) = (Session::random(), 0);
    let deadline = shard.now().await + 2000;
    shard.until(deadline).await;
    let all_ended = async || {
        call += 1;
        assert_eq!(shard.run(shard.ask(fence(worker, call))).await.leases, [], "too late to run");
        let live = live(&shard, waiting.iter()).await;
        if live.is_empty() { Ok(()) } else { Err(format!("{live:?}")) }
    };
    eventually("all that waited have ended", LIMIT, all_ended).await;
    for handle in waiting {
        assert_eq!(shard.outcome(handle.key()).await, Outcome::DeadlineExceeded);
    }
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_counter_that_somebody_spoiled_refuses_what_goes_by_it_and_holds_up_nothing_else() {
    for field in ["bytes", "seq", "n|acme", "b|acme", "r|acme"] {
        let shard = Shard::start().await;
        let (owner, running) = shard.running(&Item::new("running").lane("acme")).await;
        let of_all = !field.contains('|');
        let key = if of_all { &shard.keys.meta } else { &shard.keys.lanes };
        shard.tell(&[&"HSET", key, &field, &"spoiled"]).await;
        let before = shard.dump().await;
        let new = shard.submit(&[Item::new("new").lane("acme")]).await.expect("answered");
        assert_eq!(new, [SubmitReply::Spoiled], "{field}");
        assert!(shard.dump().await == before, "{field}: the submit wrote something");
        let known = Item::new("running").lane("acme");
        let beside = shard.submit(&[known, Item::new("beside").lane("other")]).await;
        let [SubmitReply::Known(..), beside] = &beside.expect("answered")[..] else {
            panic!("{field}: the id rule comes first")
        };
        assert_eq!(*beside == SubmitReply::Spoiled, of_all, "{field}: {beside:?}");
        assert_eq!(shard.settle(owner, running, ack("fine")).await, SettleReply::Done, "{field}");
        assert_eq!(shard.outcome(running.key()).await, Outcome::Answered, "{field}");
        assert_eq!(shard.home(running.key()).await, Some(Home::Finished), "{field}");
    }
}

#[tokio::test]
async fn a_version_that_somebody_spoiled_keeps_nobody_from_reading_the_policy() {
    let shard = Shard::start().await;
    let look = Policy { shard: &shard.keys, policy: &shard.policy, write: false };
    for spoiled in ["-1", "1e30", "spoiled"] {
        shard.tell(&[&"HSET", &shard.keys.meta, &"policy_version", &spoiled]).await;
        let reply = look.run(&shard.redis).await.expect("answered");
        assert_eq!(reply, PolicyReply::Same(0), "{spoiled}");
    }
}

/// Those that have no record yet.
async fn live<'a>(shard: &Shard, handles: impl Iterator<Item = &'a Handle>) -> Vec<Handle> {
    let mut live = Vec::new();
    for handle in handles {
        let found = shard.find(handle.key()).await.expect("it is kept");
        if !found.home.expect("a home").is_end() {
            live.push(*handle);
        }
    }
    live
}

#[tokio::test]
async fn a_request_whose_ticket_or_body_is_lost_ends_with_a_record_that_names_it() {
    for field in ["ticket", "request"] {
        let shard = Shard::start().await;
        let [waiting, running] = ["waiting", "running"].map(Item::new);
        let (_, b) = shard.running(&running).await;
        let a = shard.accept(&waiting.by(FAR - 1)).await;
        let hash = if field == "ticket" { &shard.keys.ticket } else { &shard.keys.request };
        for handle in [a, b] {
            shard.tell(&[&"HDEL", hash, handle.key().as_bytes()]).await;
        }
        shard.lapse(&[b]).await;
        shard.reclaim().await;
        let worker = fence(Session::random(), 1);
        for lease in shard.claim(worker, 4).await {
            // Its worker finds no body.
            let kind = unusable();
            assert_eq!(shard.settle(worker, lease.handle, kind).await, SettleReply::Done);
        }
        for (handle, id) in [(a, "waiting"), (b, "running")] {
            let record = shard.record(handle.key()).await;
            assert_eq!(record.outcome, Outcome::Unusable, "{field} of {id}");
            assert_eq!(record.identity.unwrap().id.as_bytes(), id, "{field}");
        }
    }
}

#[tokio::test]
async fn a_ticket_that_was_cut_or_is_of_another_version_ends_as_unusable_when_it_is_claimed() {
    let shard = Shard::start().await;
    let damages: [fn(&mut Vec<u8>); 3] =
        [|ticket| ticket.truncate(100), |ticket| ticket.truncate(190), |ticket| ticket[0] = 9];
    for (number, damage) in damages.into_iter().enumerate() {
        let item = Item::new(format!("r{number}"));
        let a = shard.accept(&item).await;
        let ticket = shard.tell(&[&"HGET", &shard.keys.ticket, a.key().as_bytes()]).await;
        let mut ticket = ticket.bytes().unwrap().to_vec();
        damage(&mut ticket);
        shard.tell(&[&"HSET", &shard.keys.ticket, a.key().as_bytes(), &ticket]).await;
        let claimed = shard.run(shard.ask(fence(Session::random(), 1))).await;
        assert_eq!((claimed.leases, claimed.ended), (vec![], vec![(a, Outcome::Unusable)]));
        let record = shard.record(a.key()).await;
        assert_eq!(record.identity.unwrap().id.as_bytes(), &item.id, "named by its request");
        shard.assert_whole().await;
    }
}

#[tokio::test]
async fn a_lease_whose_ticket_is_lost_is_settled_with_a_record_that_says_so() {
    let shard = Shard::start().await;
    let (owner, a) = shard.running(&Item::new("a")).await;
    shard.tell(&[&"HDEL", &shard.keys.ticket, a.key().as_bytes()]).await;
    let reply = shard.settle(owner, a, retry(1)).await;
    assert_eq!(reply, SettleReply::Ended(Outcome::Unusable));
    assert_eq!(shard.outcome(a.key()).await, Outcome::Unusable);
    assert_eq!(shard.leases().await, []);
}

fn unusable() -> holdfast_core::script::SettleKind {
    let failure = crate::fixture::failure();
    let outcome = holdfast_core::script::Burial::Unusable;
    holdfast_core::script::SettleKind::Bury { outcome, failure, answer: None }
}

#[tokio::test]
async fn a_damaged_ticket_ends_its_own_request_and_holds_up_no_other() {
    let shard = Shard::start().await;
    let [damaged, other] = [Item::new("damaged").by(FAR - 1), Item::new("other")];
    let (a, b) = (shard.accept(&damaged).await, shard.accept(&other).await);
    // The lengths of the names lie: 190 and 191 hold the tenant's.
    let ticket = shard.tell(&[&"HGET", &shard.keys.ticket, a.key().as_bytes()]).await;
    let mut ticket = ticket.bytes().unwrap().to_vec();
    ticket[189] = 0xff;
    shard.tell(&[&"HSET", &shard.keys.ticket, a.key().as_bytes(), &ticket]).await;
    shard.score(&shard.keys.pending, &[a], shard.now().await - 1).await;

    let claimed = shard.run(shard.ask(fence(Session::random(), 1))).await;
    assert_eq!(handles(&claimed.leases), [b]);
    assert_eq!(claimed.ended.len(), 1, "{:?}", claimed.ended);
    assert_eq!(claimed.ended[0].0, a);
}

/// The ticket is written by then, and the request is in no home: a repeat that was told "known" would never run.
#[tokio::test]
async fn a_submit_that_was_stopped_half_way_is_taken_in_by_its_repeat() {
    let shard = Shard::start().await;
    let item = Item::new("a");
    let half = shard.accept(&item).await;
    // As an older version left it whose user lacked a right.
    shard.tell(&[&"ZREM", &shard.keys.pending, half.as_bytes()]).await;
    shard.tell(&[&"HDEL", &shard.keys.meta, &"bytes"]).await;
    shard.tell(&[&"DEL", &shard.keys.lanes]).await;

    let again = item.again();
    let handle = shard.accept(&again).await;
    let fence = shard.lease(handle).await;
    assert_eq!(shard.settle(fence, handle, ack("done")).await, SettleReply::Done);
    assert!(matches!(shard.submit_one(&item).await, SubmitReply::Known(Some(Home::Finished), _)));
    shard.assert_whole().await;
}
