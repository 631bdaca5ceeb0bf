//! K02: a worker that lost its request comes back after another has finished it.
//!
//! A check that takes "no owner" for "free" lets such a worker publish a second answer. Here a missing owner, an empty
//! token and a wrong one are all refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdfast_core::model::{Answer as Kept, Fence, Handle, Session};
use holdfast_core::redis::{Message, Subscriber};
use holdfast_core::script::{Settle, SettleItem, SettleKind, SettleReply};
use holdfast_testkit::eventually;
use tokio::task::JoinSet;

use crate::aftermath;
use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::raw_gateway::{Answer, Arrival, Asked};
use crate::stage::{self, ByHand};

/// The first call of each request is answered "A", but late; every other one "B".
fn plan(asked: &Asked<'_>) -> Answer {
    match asked.earlier {
        0 if asked.has("<early>") => Answer::with(200, &[], "\"A\"").after(time(5.0)),
        0 => Answer::with(200, &[], "\"A\"").after(time(60.0)),
        _ => Answer::with(200, &[], "\"B\"").after(time(4.0)),
    }
}

/// Settles in a worker's place, under tokens that are none.
async fn forged_settles_are_refused(hand: &ByHand, handles: &[Handle]) {
    let tokens =
        [Fence::from([0; 32]), Fence::from([b' '; 32]), Fence::new(Session::from([7; 8]), 1)];
    for fence in tokens {
        let kind = || SettleKind::Ack {
            status: 200,
            answer: Kept { headers: Vec::new(), body: "\"forged\"".into() },
        };
        let items: Vec<SettleItem> =
            handles.iter().map(|it| SettleItem { fence, handle: *it, kind: kind() }).collect();
        let replies =
            Settle { shard: &hand.keys, items: &items }.run(&hand.redis).await.expect("an answer");
        assert_eq!(replies, vec![SettleReply::Fenced; handles.len()], "under {fence:?}");
    }
}

/// How often each end is told, by key and generation.
type Told = Arc<Mutex<BTreeMap<Vec<u8>, usize>>>;

/// Listens to what ends.
async fn listen(hand: &ByHand) -> (Told, JoinSet<()>) {
    let mut ears =
        Subscriber::open(&hand.redis, vec![hand.keys.ended.clone()]).expect("a subscriber");
    assert_eq!(ears.next().await, Message::Subscribed);
    let told = Told::default();
    let ear = Arc::clone(&told);
    let mut listening = JoinSet::new();
    listening.spawn(async move {
        loop {
            let Message::Heard { bytes, .. } = ears.next().await else { continue };
            for name in bytes.chunks(24) {
                *ear.lock().unwrap().entry(name.to_vec()).or_default() += 1;
            }
        }
    });
    (told, listening)
}

/// Every request is answered, by B.
async fn b_has_answered(fleet: &Fleet, ids: &[String]) {
    for id in ids {
        let (outcome, result) = fleet.result(id).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", "\"B\""), "{id}");
    }
}

/// A tries to settle both of its requests, is refused, and says so in a line each.
async fn a_is_refused_twice(fleet: &Fleet, a: &Role) {
    eventually("A is refused twice", SOON, async || {
        match fleet.metric(a, "holdfast_settles_total", "outcome=\"fenced\"").await {
            2.0 => Ok(()),
            count => Err(format!("refused {count} times")),
        }
    })
    .await;
    // Lines come a moment after what they tell of.
    eventually("a line for each lost request, and no more", SOON, async || {
        let output = a.process.output();
        let lines = output.lines().filter(|it| it.contains("too late: the lease was another's"));
        match lines.count() {
            2 => Ok(()),
            count => Err(format!("{count} lines")),
        }
    })
    .await;
}

/// A sleeps past its lease, B answers, A wakes: one of its answers waits in its socket, another is still to come.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_wakes_after_its_heir_has_answered_changes_nothing() {
    let _shared = beside_others().await;
    let (worker, reclaimer) = (stage::worker(4, time(6.0)), stage::reclaimer(time(2.0)));
    let (fleet, gateway) = stage::raw(Setup { worker, reclaimer, ..Setup::default() }, plan).await;
    let hand = ByHand::on(&fleet);
    let (told, _listening) = listen(&hand).await;
    let reclaimer = fleet.reclaimer();
    let mut a = fleet.worker();
    let ids = ["early", "late"].map(str::to_owned);
    stage::submit_all(&fleet, &ids).await;
    gateway.wait_for_arrivals(2, SOON).await;
    let handles: Vec<Handle> = hand.leases(&fleet).await.into_iter().map(|(_, it)| it).collect();
    pass(time(1.0)).await;
    a.process.freeze();

    let b = fleet.worker();
    gateway.wait_for_arrivals(4, time(8.0) + SOON).await;
    forged_settles_are_refused(&hand, &handles).await;
    b_has_answered(&fleet, &ids).await;
    forged_settles_are_refused(&hand, &handles).await;
    let early = |all: &[Arrival]| all[..2].iter().any(|it| it.has("<early>") && it.end.is_some());
    gateway.wait_until("A's first answer lies in its socket", SOON, early).await;

    a.process.wake();
    a_is_refused_twice(&fleet, &a).await;
    // It sees by its own clock that its lease is over: the call that still runs is closed.
    let late = |all: &[Arrival]| all[..2].iter().any(|it| it.has("<late>") && it.is_aborted());
    gateway.wait_until("A's other call is closed", SOON, late).await;
    aftermath::of(&fleet, &ids, &[&a, &b, &reclaimer]).await;
    b_has_answered(&fleet, &ids).await;
    assert_eq!(gateway.arrivals().len(), 4, "dispatched more than twice");
    let told: Vec<usize> = told.lock().unwrap().values().copied().collect();
    assert_eq!(told, [1, 1], "each end is told once");
}
