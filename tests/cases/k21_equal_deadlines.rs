//! K21: requests of one deadline run in the order in which they were submitted.
//!
//! Sets that break ties by the bytes of a random name shuffle them. Here the submission's number comes first in the name,
//! and what comes back takes its old place.

use std::time::Duration;

use holdfast_testkit::stand_in::Rule;

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, count, time};
use crate::{aftermath, stage};

/// The back-off before a first retry is at most this.
const FIRST_STEP: Duration = Duration::from_secs(1);

/// One slot, so that what arrives first was claimed first.
async fn one_at_a_time() -> (Fleet, Vec<String>) {
    let setup = Setup {
        worker: stage::worker(1, time(6.0)),
        reclaimer: stage::reclaimer(time(1.0)),
        ..Setup::default()
    };
    let fleet = stage::fleet(setup).await;
    let (ids, deadline) = (stage::ids("k21", count(50, 30)), stage::unix() + 600);
    for id in &ids {
        let item = format!(
            "{{\"id\":\"{id}\",\"deadline\":{deadline},\"payload\":{}}}",
            stage::payload(id)
        );
        assert_eq!(fleet.post(&item).await.status, 202);
    }
    (fleet, ids)
}

/// The ids of the arrivals from the `from`-th on, in their order.
fn order(fleet: &Fleet, from: usize) -> Vec<String> {
    let name = |body: &[u8]| {
        let text = String::from_utf8_lossy(body).into_owned();
        text.split(['<', '>']).nth(1).expect("a mark").to_owned()
    };
    fleet.gateway.bodies().iter().skip(from).map(|body| name(body)).collect()
}

/// Nothing goes wrong.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_dispatch_is_the_order_of_submission() {
    let _shared = beside_others().await;
    let (fleet, ids) = one_at_a_time().await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
    assert_eq!(order(&fleet, 0), ids);
}

/// The first five are lost with their worker, and come back before all others.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_worker_held_comes_back_to_the_front() {
    let _shared = beside_others().await;
    let (fleet, ids) = one_at_a_time().await;
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker_with(&[("HOLDFAST_WORKER_CONCURRENCY", "5")]);
    fleet.gateway.wait_for_arrivals(5, SOON).await.expect("five in flight");
    doomed.process.kill();
    let reclaimer = fleet.reclaimer();
    fleet.wait_for_count("pending", ids.len() as i64, time(7.0) + SOON).await;
    fleet.gateway.hold(false);
    let heir = fleet.worker();
    aftermath::of(&fleet, &ids, &[&heir, &reclaimer]).await;
    assert_eq!(order(&fleet, 5), ids);
}

/// The third is refused once: after its back-off it is next, not last.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_request_takes_its_old_place_once_it_is_due() {
    let _shared = beside_others().await;
    let (fleet, ids) = one_at_a_time().await;
    let call = Duration::from_millis(100);
    let refused = Rule::on_body(&stage::mark("k21-3")).times(1).status(503);
    fleet.gateway.script(vec![refused, Rule::new().delay(call)]).expect("rules");
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;

    let tries = fleet.arrivals_of(&stage::mark("k21-3"));
    let [first, second] = &*tries else { panic!("{} tries", tries.len()) };
    let gap = second.since_start - first.since_start;
    assert!(gap >= FIRST_STEP / 2, "tried again after {gap:?}");
    assert!(gap <= FIRST_STEP + call * 5, "due after a second at most, it came after {gap:?}");
    let mut rest = order(&fleet, 0);
    rest.remove(second.number as usize - 1);
    assert_eq!(rest, ids, "the others keep their order");
    assert_ne!(order(&fleet, 0).last().map(String::as_str), Some("k21-3"), "it went to the end");
}
