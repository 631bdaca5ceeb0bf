//! 8: order. 9: no request blocks another.

use std::time::Duration;

use holdfast_core::{
    model::{Handle, Session},
    script::{Charge, Claim, ReclaimReply, SettleReply},
};

use crate::fixture::{FAR, Item, LEASE, Shard, ack, bury, fence, handles, release, retry};

/// Claims one after another until nothing is left.
async fn drained(shard: &Shard) -> Vec<Handle> {
    let (worker, mut drained, mut call) = (Session::random(), Vec::new(), 0);
    loop {
        call += 1;
        match handles(&shard.claim(fence(worker, call), 1).await)[..] {
            [] => return drained,
            [handle] => drained.push(handle),
            ref more => panic!("{more:?}"),
        }
    }
}

#[tokio::test]
async fn the_earliest_deadline_is_claimed_first_and_equal_ones_as_they_were_submitted() {
    let shard = Shard::start().await;
    let mut items = Vec::new();
    for (number, deadline) in [5, 3, 5, 9, 3, 5, 1, 9, 3, 5].into_iter().enumerate() {
        let handle = shard.accept(&Item::new(format!("r{number}")).by(FAR + deadline)).await;
        items.push((deadline, handle));
    }
    // A stable sort keeps the order of submission.
    items.sort_by_key(|(deadline, _)| *deadline);
    let expected: Vec<Handle> = items.into_iter().map(|(_, handle)| handle).collect();
    assert_eq!(drained(&shard).await, expected);
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_claim_for_many_slots_gives_them_in_the_same_order() {
    let shard = Shard::start().await;
    let items: Vec<Item> =
        (0..300).map(|at| Item::new(format!("r{at}")).by(FAR + at * 7919 % 300)).collect();
    let mut expected: Vec<(u64, Handle)> = shard
        .accept_all(&items)
        .await
        .into_iter()
        .zip(&items)
        .map(|(it, item)| (item.deadline, it))
        .collect();
    expected.sort();
    let expected: Vec<Handle> = expected.into_iter().map(|(_, handle)| handle).collect();
    let worker = Session::random();
    assert_eq!(handles(&shard.claim(fence(worker, 1), 256).await), expected[..256]);
    assert_eq!(handles(&shard.claim(fence(worker, 2), 256).await), expected[256..]);
}

#[tokio::test]
async fn whatever_comes_back_takes_its_own_place() {
    let shard = Shard::start().await;
    let items = shard.accept_all(&Item::many("r", 6)).await;
    let worker = Session::random();
    assert_eq!(handles(&shard.claim(fence(worker, 1), 4).await), items[..4]);
    let fence = fence(worker, 1);
    assert_eq!(shard.settle(fence, items[3], release(false)).await, SettleReply::Done);
    assert_eq!(shard.settle(fence, items[1], retry(3_600_000)).await, SettleReply::Done);
    let due = shard.find(items[1].key()).await.unwrap().score;
    shard.retry_now(items[1], due).await;
    shard.die(&[items[0]]).await;
    shard.reclaim_named(&[(fence, items[2])]).await;
    assert_eq!(drained(&shard).await, items);
    shard.assert_whole().await;
}

#[tokio::test]
async fn one_that_waits_for_its_back_off_holds_up_none() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let first = Item::new("first").by(FAR - 9);
    let (owner, first) = shard.running(&first).await;
    assert_eq!(shard.settle(owner, first, retry(3_600_000)).await, SettleReply::Done);
    let later = shard.accept(&Item::new("later")).await;
    let claimed = shard.run(shard.ask(fence(worker, 1))).await;
    assert_eq!(handles(&claimed.leases), [later]);
    assert!(!claimed.more);
    let due = claimed.next_due.unwrap();
    assert!(due > Duration::from_secs(3590) && due <= Duration::from_secs(3600), "{due:?}");
}

#[tokio::test]
async fn a_suspect_that_must_wait_holds_up_none_and_runs_in_its_turn_otherwise() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let [a, b] = [Item::new("a").by(FAR - 8), Item::new("b").by(FAR - 9)];
    let a = shard.accept(&a).await;
    shard.make_suspect(a).await;
    let b = shard.accept(&b).await;
    let [c, d] = [shard.accept(&Item::new("c")).await, shard.accept(&Item::new("d")).await];

    let without =
        |call| Claim { may_take_suspect: false, free: 1, ..shard.ask(fence(worker, call)) };
    assert_eq!(handles(&shard.run(without(1)).await.leases), [b]);
    assert_eq!(handles(&shard.run(without(2)).await.leases), [c], "past the suspect");
    shard.settle(fence(worker, 2), c, release(false)).await;
    assert_eq!(
        handles(&shard.claim(fence(worker, 3), 2).await),
        [a, c],
        "in the order of deadlines"
    );
    assert_eq!(handles(&shard.claim(fence(worker, 4), 2).await), [d], "beside a running suspect");
    shard.assert_whole().await;
}

#[tokio::test]
async fn a_claim_stops_at_the_first_that_does_not_fit_its_budget_and_never_skips_it() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let sizes = [3000, 500, 400, 200, 100];
    let items: Vec<Item> = sizes
        .iter()
        .enumerate()
        .map(|(at, size)| Item::new(format!("r{at}")).body(vec![b'x'; *size]))
        .collect();
    let items = shard.accept_all(&items).await;
    let claim = |call| Claim { budget: 1000, ..shard.ask(fence(worker, call)) };
    for (call, expected) in [(1, &items[..1]), (2, &items[1..3]), (3, &items[3..])] {
        let claimed = shard.run(claim(call)).await;
        assert_eq!(handles(&claimed.leases), expected);
        assert_eq!(claimed.more, call < 3);
    }
}

#[tokio::test]
async fn what_ends_or_waits_elsewhere_is_never_claimed() {
    let (shard, worker) = (Shard::start().await, Session::random());
    for kind in [ack("done"), bury(), retry(3_600_000)] {
        let (owner, a) = shard.running(&Item::new(format!("{kind:?}"))).await;
        assert_eq!(shard.settle(owner, a, kind).await, SettleReply::Done);
    }
    shard.accept(&Item::new("not yet").from(FAR - 1)).await;
    assert_eq!(shard.claim(fence(worker, 1), 8).await, []);
}

#[tokio::test]
async fn a_member_that_is_no_handle_leaves_where_it_waits_and_holds_up_none() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let keys = &shard.keys;
    let suspect = shard.accept(&Item::new("suspect").by(FAR)).await;
    shard.make_suspect(suspect).await;
    let others = shard.accept_all(&[Item::new("a").by(FAR), Item::new("b").by(FAR)]).await;
    // Shorter than a handle, and longer; before the others, at the same time, and late.
    let strange = [&b"\0odd"[..], &[0; 40]];
    for member in strange {
        let places = [
            (&keys.suspects, FAR - 1),
            (&keys.pending, FAR),
            (&keys.pending, 1),
            (&keys.suspects, 1),
            (&keys.delayed, 1),
        ];
        for (number, (key, score)) in places.into_iter().enumerate() {
            let named = [member, number.to_string().as_bytes()].concat();
            shard.tell(&[&"ZADD", key, &score.to_string(), &named]).await;
        }
    }
    let mut ran = Vec::new();
    for call in 1..12 {
        let one = Claim { free: 1, ..shard.ask(fence(worker, call)) };
        let claimed = shard.run(one).await;
        assert_eq!(claimed.ended, [], "nothing has an end that was never a request");
        ran.extend(handles(&claimed.leases));
    }
    assert_eq!(ran, [&[suspect][..], &others].concat());
    let fine = shard.dump().await;
    for key in [&keys.pending, &keys.suspects, &keys.delayed] {
        assert_eq!(shard.tell(&[&"ZCARD", key]).await.int(), Some(0), "{key}");
    }
    // Nobody claims: a reclaimer ends what is late.
    for member in strange {
        shard.tell(&[&"ZADD", &keys.pending, &"1", &member]).await;
        shard.tell(&[&"ZADD", &keys.suspects, &"1", &member]).await;
    }
    assert_eq!(shard.expire().await, []);
    assert!(shard.dump().await == fine, "they left, and nothing else did");
}

#[tokio::test]
async fn a_member_that_is_no_lease_leaves_when_it_lapses_and_holds_up_none() {
    let shard = Shard::start().await;
    let (_, a) = shard.running(&Item::new("a")).await;
    shard.lapse(&[a]).await;
    for member in [&b"odd"[..], &[b'0'; 70]] {
        shard.tell(&[&"ZADD", &shard.keys.leased, &"1", &member]).await;
    }
    assert_eq!(shard.reclaim().await, [ReclaimReply::Returned(a, Charge::Lapse)]);
    assert_eq!(shard.leases().await, []);
    assert_eq!(drained(&shard).await, [a]);
    // Also beside a lease that a clock which went back left behind.
    shard.move_leases_of(&[a], |end| end + 36_000_000).await;
    for member in [&b"odd"[..], &[b'0'; 70]] {
        shard.tell(&[&"ZADD", &shard.keys.leased, &"99999999999999", &member]).await;
    }
    assert_eq!(shard.reclaim().await, [ReclaimReply::Lowered(a)]);
    let end = (shard.now().await + LEASE.as_millis() as u64).to_string();
    let ahead = shard.tell(&[&"ZCOUNT", &shard.keys.leased, &format!("({end}"), &"+inf"]).await;
    assert_eq!(ahead.int(), Some(0), "all of them end as leases do");
    let kept = shard.tell(&[&"ZCARD", &shard.keys.leased]).await;
    assert_eq!(kept.int(), Some(3));
    shard.tell(&[&"ZREM", &shard.keys.leased, &"odd", &[b'0'; 70]]).await;
    shard.assert_whole().await;
}
