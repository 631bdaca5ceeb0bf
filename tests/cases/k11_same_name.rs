//! K11: two workers share one name, and one of them dies.
//!
//! Where life is judged by name, the living one keeps the dead one's claims fresh, or its successor adopts them, and
//! they never come back. Here a name is for eyes only.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, time};
use crate::{aftermath, stage};

const NAME: [(&str, &str); 1] = [("HOLDFAST_WORKER_NAME", "demo")];
const SLOTS: usize = 4;

/// Who holds a request: session and name.
async fn holder(fleet: &Fleet, id: &str) -> (String, String) {
    let status = fleet.status(id).await;
    let word = |field: &str| {
        status["lease"][field].as_str().unwrap_or_else(|| panic!("{status}")).to_owned()
    };
    (word("session"), word("worker"))
}

/// One of two namesakes is killed with four requests in flight; the other lives, and a third starts at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_namesake_neither_keeps_a_dead_workers_claims_nor_adopts_them() {
    let _shared = beside_others().await;
    let (lease, every) = (time(6.0), time(2.0));
    let setup = Setup {
        worker: stage::worker(SLOTS, lease),
        reclaimer: stage::reclaimer(every),
        ..Setup::default()
    };
    let fleet = stage::fleet(setup).await;
    let reclaimer = fleet.reclaimer();
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker_with(&NAME);
    let ids = stage::ids("k11", 2 * SLOTS);
    stage::submit_all(&fleet, &ids[..SLOTS]).await;
    fleet.gateway.wait_for_arrivals(SLOTS as u64, SOON).await.expect("four in flight");
    let survivor = fleet.worker_with(&NAME);
    stage::submit_all(&fleet, &ids[SLOTS..]).await;
    fleet.gateway.wait_for_arrivals(2 * SLOTS as u64, SOON).await.expect("eight in flight");
    let mut sessions = BTreeSet::new();
    for id in &ids {
        let (session, name) = holder(&fleet, id).await;
        assert_eq!(name, "demo");
        sessions.insert(session);
    }
    assert_eq!(sessions.len(), 2, "each process has a session of its own");

    doomed.process.kill();
    let (killed, successor) = (Instant::now(), fleet.worker_with(&NAME));
    fleet
        .gateway
        .wait_for_arrivals(3 * SLOTS as u64, SOON)
        .await
        .expect("the dead one's four come again");
    let took = killed.elapsed();
    // Its last renewal was at most a third of the lease old.
    assert!(
        took >= lease * 2 / 3 - Duration::from_millis(100),
        "taken after {took:?}, while the lease ran"
    );
    assert!(took <= lease + every + Duration::from_secs(5), "taken only after {took:?}");
    fleet.gateway.hold(false);
    aftermath::of(&fleet, &ids, &[&survivor, &successor, &reclaimer]).await;
    for (at, id) in ids.iter().enumerate() {
        let expected = if at < SLOTS { 2 } else { 1 };
        assert_eq!(fleet.arrivals_of(&stage::mark(id)).len(), expected, "dispatches of {id}");
    }
}
