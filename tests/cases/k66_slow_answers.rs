//! K66: an answer that takes longer than a lease.
//!
//! One timer for the whole call ends answers that flow, or lets silent ones be; one that also runs while the body is still
//! being sent takes a slow upload for silence.

use std::time::{Duration, Instant};

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, spelled, time};
use crate::raw_gateway::{Answer, Manners};
use crate::{aftermath, stage};

/// Pieces of this size, so that a good answer takes a dozen of them.
const PIECE: usize = 12;

fn setup() -> Setup {
    Setup {
        worker: stage::worker(4, time(6.0)),
        reclaimer: stage::reclaimer(time(1.0)),
        queue: format!("stall_timeout = \"{}\"\nbody_limit = \"40MiB\"", spelled(time(8.0))),
        ..Setup::default()
    }
}

async fn submit(fleet: &Fleet, id: &str, timeout: Duration) {
    let (timeout, payload) = (spelled(timeout), stage::payload(id));
    let item = format!("{{\"id\":\"{id}\",\"timeout\":\"{timeout}\",\"payload\":{payload}}}");
    assert_eq!(fleet.post(&item).await.status, 202);
}

/// It flows: renewed all the time, sent once, whole. Or its deadline comes first: then it is closed there.
async fn trickling() {
    let plan = |_: &crate::raw_gateway::Asked<'_>| Answer::ok().in_pieces(PIECE, time(3.0));
    let (fleet, gateway) = stage::raw(setup(), plan).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let (ids, submitted) = (["flows", "late"].map(str::to_owned), Instant::now());
    submit(&fleet, "flows", Duration::from_secs(1200)).await;
    submit(&fleet, "late", time(16.0)).await;
    assert_eq!(fleet.result_within("late", time(16.0) + SOON).await.0, "deadline-exceeded");
    gateway
        .wait_until("its call is closed", SOON, |all| {
            all.iter().any(|arrival| arrival.is_aborted())
        })
        .await;
    let closed = gateway.arrivals_of("<late>")[0].end.expect("an end").1.duration_since(submitted);
    assert!(
        closed >= time(16.0) && closed <= time(16.0) + Duration::from_secs(8),
        "closed after {closed:?}"
    );

    let (outcome, result) = fleet.result_within("flows", time(60.0) + SOON).await;
    assert_eq!((outcome.as_str(), result.header("holdfast-attempts")), ("answered", Some("1")));
    assert!(submitted.elapsed() > time(6.0) * 3, "it did not take longer than its lease");
    assert_eq!(gateway.arrivals().len(), 2, "dispatched twice");
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
}

/// It falls silent half-way: ended by the limit for that, and tried again.
async fn falling_silent() {
    let plan = |asked: &crate::raw_gateway::Asked<'_>| match asked.earlier {
        0 => Answer::ok().stalled(100),
        _ => Answer::ok(),
    };
    let (fleet, gateway) = stage::raw(setup(), plan).await;
    let (worker, ids) = (fleet.worker(), stage::ids("k66", 1));
    submit(&fleet, &ids[0], Duration::from_secs(600)).await;
    let (outcome, result) = fleet.result_within(&ids[0], time(9.0) + SOON).await;
    assert_eq!((outcome.as_str(), result.header("holdfast-attempts")), ("answered", Some("2")));
    let first = &gateway.arrivals()[0];
    let lasted = first.end.expect("an end").1.duration_since(first.at);
    assert!(
        lasted >= time(8.0) && lasted <= time(8.0) + Duration::from_secs(8),
        "given up after {lasted:?}"
    );
    assert_eq!(fleet.status(&ids[0]).await["last_failure"]["code"], "stall");
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// What flows is waited for, what has stopped is not.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_flows_is_waited_for_and_one_that_has_stopped_is_not() {
    let _shared = beside_others().await;
    tokio::join!(trickling(), falling_silent());
}

/// A large body goes to a slow reader: that takes longer than silence may, and is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_upload_is_no_silence() {
    let _shared = beside_others().await;
    let (fleet, gateway) = stage::raw(setup(), |_| Answer::ok()).await;
    gateway.manners(Manners { reading: Some((3 << 20, time(2.0))), ..Manners::default() });
    let (worker, ids) = (fleet.worker(), stage::ids("k66", 1));
    let payload = format!("\"{}\"", "x".repeat(30 << 20));
    let started = Instant::now();
    fleet.submit(&ids[0], &payload).await;
    let (outcome, result) = fleet.result_within(&ids[0], time(60.0) + SOON).await;
    assert_eq!((outcome.as_str(), result.header("holdfast-attempts")), ("answered", Some("1")));
    assert!(started.elapsed() > time(8.0) * 2, "it was no slow upload");
    assert_eq!(gateway.arrivals()[0].body, payload);
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
