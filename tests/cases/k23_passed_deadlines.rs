//! K23: a deadline passes, wherever the request is.
//!
//! Without one rule for it, expired work vanishes, or an answer that comes late races with an error about the deadline.

use std::time::Duration;

use holdfast_testkit::eventually;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, spelled, time};
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

const LATE: &str = "deadline-exceeded";

async fn submit(fleet: &Fleet, id: &str, timeout: Duration) {
    let (timeout, payload) = (spelled(timeout), stage::payload(id));
    let item = format!("{{\"id\":\"{id}\",\"timeout\":\"{timeout}\",\"payload\":{payload}}}");
    assert_eq!(fleet.post(&item).await.status, 202);
}

/// How often these roles say that they ended a request as late.
async fn told(fleet: &Fleet, roles: &[&Role]) -> f64 {
    let mut sum = 0.0;
    for role in roles {
        sum += fleet.metric(role, "holdfast_ends_total", &format!("outcome=\"{LATE}\"")).await;
    }
    sum
}

/// Ended as late, each once by every account.
async fn all_late(fleet: &Fleet, ids: &[String], roles: &[&Role]) {
    let outcomes = aftermath::of(fleet, ids, roles).await;
    assert_eq!(outcomes, vec![LATE; ids.len()]);
    eventually("each end is counted", SOON, async || match told(fleet, roles).await {
        count if count >= ids.len() as f64 => Ok(()),
        count => Err(format!("{count} are")),
    })
    .await;
    // Whatever would count one a second time has its turn.
    pass(time(2.0)).await;
    assert_eq!(told(fleet, roles).await, ids.len() as f64, "an end was counted twice");
}

/// It passes while the request waits for a worker: it is never sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waited_too_long_is_never_dispatched() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let ids = stage::ids("k23a", 1);
    submit(&fleet, &ids[0], time(2.0)).await;
    pass(time(5.0)).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    all_late(&fleet, &ids, &[&worker]).await;
    assert_eq!(fleet.gateway.counts().arrived, 0);
}

/// It passes during the call: the call is closed, and the outcome is the same each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_lasts_beyond_the_deadline_is_closed_and_always_ends_the_same() {
    let _shared = beside_others().await;
    let (fleet, gateway) = stage::raw(Setup::default(), |_| Answer::ok().after(time(8.0))).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let ids = stage::ids("k23b", 8);
    for id in &ids {
        submit(&fleet, id, time(4.0)).await;
    }
    all_late(&fleet, &ids, &[&worker, &reclaimer]).await;
    let arrivals = gateway.arrivals();
    assert_eq!(arrivals.len(), ids.len());
    for arrival in &arrivals {
        assert!(arrival.is_aborted(), "the gateway went on for nobody");
        let lasted = arrival.end.expect("an end").1.duration_since(arrival.at);
        assert!(lasted < time(8.0), "closed only after {lasted:?}");
    }
}

/// It passes while Redis hangs, and everybody is there again afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_while_redis_is_away_ends_each_request_once() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let ids = stage::ids("k23c", 3);
    for id in &ids {
        submit(&fleet, id, time(4.0)).await;
    }
    fleet.redis.pause();
    pass(time(10.0)).await;
    fleet.redis.resume();
    let roles = [fleet.reclaimer(), fleet.reclaimer(), fleet.worker(), fleet.worker()];
    all_late(&fleet, &ids, &roles.iter().collect::<Vec<_>>()).await;
    assert_eq!(fleet.gateway.counts().arrived, 0, "a late request was dispatched");
}

/// It passes while Redis hangs, in a call and in the queue, and everybody was there all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_in_an_outage_ends_what_runs_and_what_waits_once() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let roles = [fleet.reclaimer(), fleet.reclaimer(), fleet.worker(), fleet.worker()];
    for role in &roles {
        fleet.ready(role.ops).await;
    }
    fleet.gateway.hold(true);
    let ids = ["running", "waiting"].map(str::to_owned);
    submit(&fleet, &ids[0], time(8.0)).await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    let (timeout, not_before) = (spelled(time(8.0)), stage::unix() + 1);
    let item = format!(
        "{{\"id\":\"waiting\",\"timeout\":\"{timeout}\",\"not_before\":{not_before},\"payload\":{{}}}}"
    );
    let waiting = fleet.post(&item).await;
    assert_eq!(waiting.status, 202, "{}", waiting.text());
    fleet.redis.pause();
    pass(time(10.0)).await;
    fleet.redis.resume();
    let roles: Vec<&Role> = roles.iter().collect();
    assert_eq!(aftermath::of(&fleet, &ids, &roles).await, [LATE, LATE]);
    pass(time(2.0)).await;
    // An end whose answer was lost in the outage is counted by nobody; none is counted twice.
    let told = told(&fleet, &roles).await;
    assert!(told <= 2.0, "{told} ends are told of two requests");
    assert_eq!(fleet.gateway.counts().arrived, 1, "a late request was dispatched");
}

/// Five workers find one late request at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn five_workers_that_find_one_late_request_end_it_once() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let ids = stage::ids("k23d", 1);
    submit(&fleet, &ids[0], time(2.0)).await;
    pass(time(2.0) + Duration::from_millis(50)).await;
    assert_eq!(fleet.count("pending").await, 1, "somebody has ended it already");
    let workers: Vec<Role> = (0..5).map(|_| fleet.worker()).collect();
    for worker in &workers {
        fleet.ready(worker.ops).await;
    }
    all_late(&fleet, &ids, &workers.iter().collect::<Vec<_>>()).await;
    assert_eq!(fleet.gateway.counts().arrived, 0);
}
