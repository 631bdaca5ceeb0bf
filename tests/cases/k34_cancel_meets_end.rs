//! K34: a cancel meets the end of its request.
//!
//! Where the cancel is a message that has to arrive before the work ends, a request can stay "cancelling" for ever, and a
//! cancel that failed half-way can't be said again.

use std::time::Duration;

use holdfast_core::script;
use holdfast_testkit::proxy::evalsha;
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Fault, When};
use rand::RngExt;
use serde_json::Value;

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, count, pass};
use crate::{aftermath, stage};

const CALL: Duration = Duration::from_millis(50);
/// Rounds of the race.
fn rounds() -> usize {
    count(300, 160)
}

/// Asks for a cancel: status and state.
async fn cancel(fleet: &Fleet, id: &str) -> (u16, String) {
    let answer = fleet.call("DELETE", &format!("/v1/queues/q/requests/{id}"), b"").await;
    let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
    (answer.status, body["state"].as_str().unwrap_or_default().to_owned())
}

/// A request is cancelled a while after its submit: how it ended.
async fn race(fleet: &Fleet, id: &str, after: Duration) -> String {
    fleet.submit(id, &stage::payload(id)).await;
    tokio::time::sleep(after).await;
    let (status, state) = cancel(fleet, id).await;
    match status {
        200 => assert_eq!(state, "finished", "{id}"),
        202 => assert_eq!(state, "cancelling", "{id}"),
        other => panic!("{id}: {other}"),
    }
    let (outcome, _) = fleet.result(id).await;
    assert_eq!(cancel(fleet, id).await, (200, "finished".to_owned()), "{id}, once it has ended");
    outcome
}

/// Hundreds of times within a few ms of the answer: one of the two wins, and says so for ever.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_cancel_and_answer_wins_and_nothing_stays_in_between() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    fleet.gateway.script(vec![Rule::new().delay(CALL)]).expect("a rule");
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let ids = stage::ids("k34", rounds());
    let mut outcomes = Vec::new();
    for some in ids.chunks(4) {
        let races = some.iter().enumerate().map(|(lane, id)| {
            // Most around the answer; some well before it and after it, so that each side wins sometimes.
            let (from, to) = [(45, 55), (45, 55), (45, 55), (5, 300)][lane];
            race(&fleet, id, Duration::from_millis(rand::rng().random_range(from..to)))
        });
        outcomes.extend(stage::all(races).await);
    }
    let won = |word: &str| outcomes.iter().filter(|outcome| *outcome == word).count();
    let (answered, cancelled) = (won("answered"), won("cancelled"));
    assert_eq!(answered + cancelled, ids.len(), "{outcomes:?}");
    assert!(
        answered > 0 && cancelled > 0,
        "{answered} answered, {cancelled} cancelled: they never met"
    );
    assert_eq!(
        aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await,
        outcomes,
        "an outcome changed"
    );
}

/// The answer to the cancel is lost on its way from Redis, or the cancel itself on its way there: it is said again.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_failed_half_way_can_be_said_again() {
    let _shared = beside_others().await;
    for fault in [Fault::LoseReply, Fault::HoldRequest] {
        let (fleet, proxy) = Fleet::behind_proxy().await;
        let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
        fleet.gateway.hold(true);
        let ids = stage::ids("half", 1);
        stage::submit_all(&fleet, &ids).await;
        fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
        let sha = script::all()
            .into_iter()
            .find(|script| script.name == "cancel")
            .expect("a script")
            .sha1;
        let broken = proxy.inject(fault.clone(), When::First(2), evalsha(&sha));
        let (first, _) = cancel(&fleet, "half-1").await;
        assert!(matches!(first, 200 | 202 | 503), "{first}");
        broken.wait_fired(1, SOON).await;
        let mut told = first;
        for _ in 0..3 {
            told = cancel(&fleet, "half-1").await.0;
        }
        assert!(matches!(told, 200 | 202), "{told}");
        assert_eq!(fleet.result("half-1").await.0, "cancelled");
        fleet.gateway.hold(false);
        // What was held arrives after all: it names a generation that has ended.
        proxy.release_held().await;
        pass(Duration::from_millis(300)).await;
        assert_eq!(aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await, ["cancelled"]);
    }
}

/// Unknown, finished, cancelled before, cancelled twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_idempotent_and_tells_how_it_is() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    assert_eq!(cancel(&fleet, "never").await.0, 404);
    fleet.submit("waiting", &stage::payload("waiting")).await;
    for round in 0..2 {
        assert_eq!(cancel(&fleet, "waiting").await, (200, "finished".to_owned()), "round {round}");
    }
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.submit("done", &stage::payload("done")).await;
    let (_, before) = fleet.result("done").await;
    for round in 0..2 {
        assert_eq!(cancel(&fleet, "done").await, (200, "finished".to_owned()), "round {round}");
    }
    assert_eq!(fleet.result("done").await.1.body, before.body);
    let ids = ["waiting", "done"].map(str::to_owned);
    assert_eq!(
        aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await,
        ["cancelled", "answered"]
    );
    assert_eq!(fleet.gateway.counts().arrived, 1);
}
