//! K08: a renewal that fails is not a lost lease; one that fails for too long is.
//!
//! Aborting every call because one round of renewals went unanswered costs attempts for nothing. Going on after the lease
//! is over by one's own clock costs more.

use std::time::Duration;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{alone, beside_others, full, pass, spelled, time};
use crate::raw_gateway::{Answer, Asked, RawGateway};
use crate::{aftermath, stage};

const REQUESTS: usize = 10;

/// Ten requests in flight, and Redis silent for a while from 2 s on.
async fn silent_for(
    silence: Duration,
    plan: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static,
) -> (Fleet, RawGateway, Vec<Role>, Vec<String>) {
    let setup = Setup {
        // So short that rounds of renewals fail within the silence.
        redis: format!("command_timeout = \"{}\"", spelled(time(1.0))),
        worker: stage::worker(16, time(10.0)),
        reclaimer: stage::reclaimer(time(1.0)),
        ..Setup::default()
    };
    let (fleet, gateway) = stage::raw(setup, plan).await;
    let roles = vec![fleet.reclaimer(), fleet.worker()];
    for role in &roles {
        fleet.ready(role.ops).await;
    }
    let ids = stage::ids("k08", REQUESTS);
    stage::submit_all(&fleet, &ids).await;
    gateway.wait_for_arrivals(REQUESTS, SOON).await;
    pass(time(2.0)).await;
    let pause = silence.as_millis().to_string();
    fleet.redis.command(&["CLIENT", "PAUSE", &pause, "ALL"]).await;
    (fleet, gateway, roles, ids)
}

/// Answered in the middle of the silence, long before the lease is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_silence_shorter_than_the_lease_costs_nothing() {
    let _alone = alone().await;
    let (fleet, gateway, roles, ids) =
        silent_for(time(4.0), |_| Answer::ok().after(time(8.0))).await;
    let outcomes = aftermath::of(&fleet, &ids, &roles.iter().collect::<Vec<_>>()).await;
    assert_eq!(outcomes, vec!["answered"; REQUESTS]);
    assert_eq!(gateway.arrivals().len(), REQUESTS, "a request was dispatched twice");
    for id in &ids {
        assert_eq!(fleet.status(id).await["attempts"], 1);
    }
    // Without one nothing was tried.
    roles[1].process.wait_for_line(|line| line.contains("a renewal failed"), SOON).await;
}

/// The answers come while the lease is still ours, and can't be brought home for longer than it lasts.
async fn answers_come_in_time() {
    let (fleet, gateway, roles, ids) =
        silent_for(time(25.0), |_| Answer::ok().after(time(8.0))).await;
    pass(time(25.0)).await;
    let outcomes = aftermath::of(&fleet, &ids, &roles.iter().collect::<Vec<_>>()).await;
    assert_eq!(outcomes, vec!["answered"; REQUESTS]);
    for id in &ids {
        // The settle that waited, or a second call: either way one record, and an outage that nobody is charged for.
        assert!(
            gateway.arrivals_of(&stage::mark(id)).len() <= 2,
            "{id} was dispatched more than twice"
        );
        assert_eq!(fleet.status(id).await["lapses"], 0, "{id} was charged for the outage");
    }
}

/// The calls last longer than the lease: its holder gives them up by its own clock, and publishes nothing.
async fn calls_last_longer() {
    let plan = |asked: &Asked<'_>| match asked.earlier {
        0 => Answer::with(200, &[], "\"old\"").after(time(60.0)),
        _ => Answer::with(200, &[], "\"new\""),
    };
    let (fleet, gateway, roles, ids) = silent_for(time(25.0), plan).await;
    // Counted from when the last accepted renewal was sent, so within a lease of the silence. A short run has other tests
    // beside it, and a silence that is over only later still.
    let slack = Duration::from_millis(if full() { 500 } else { 3000 });
    let (begun, limit) = (std::time::Instant::now(), time(10.0) + slack);
    gateway
        .wait_until("every call is given up", limit + SOON, |all| {
            all.iter().take(REQUESTS).all(|arrival| arrival.is_aborted())
        })
        .await;
    let took = begun.elapsed();
    assert!(took <= limit, "calls went on for {took:?}");
    pass(time(25.0).saturating_sub(took)).await;
    let outcomes = aftermath::of(&fleet, &ids, &roles.iter().collect::<Vec<_>>()).await;
    assert_eq!(outcomes, vec!["answered"; REQUESTS]);
    for id in &ids {
        assert_eq!(fleet.result(id).await.1.text(), "\"new\"");
        assert_eq!(gateway.arrivals_of(&stage::mark(id)).len(), 2, "dispatches of {id}");
        assert_eq!(fleet.status(id).await["lapses"], 0, "{id} was charged for the outage");
    }
}

/// Whether the answers are there or not: one record each, and an outage that nobody is charged for.
#[tokio::test(flavor = "multi_thread")]
async fn a_silence_longer_than_the_lease_ends_the_calls_and_each_request_ends_once() {
    let _shared = beside_others().await;
    tokio::join!(answers_come_in_time(), calls_last_longer());
}
