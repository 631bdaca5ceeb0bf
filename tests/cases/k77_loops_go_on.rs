//! K77: a loop that ends at the first trouble.
//!
//! After a short silence, or a few lost connections, a process lives on and does nothing any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_testkit::eventually;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, full, pass, time};
use crate::{aftermath, stage};

const LOOPS: [(&str, usize); 8] = [
    ("claim", 0),
    ("renew", 0),
    ("settle", 0),
    ("reclaim", 1),
    ("promote", 1),
    ("expire", 1),
    ("sweep", 1),
    ("depth", 1),
];

/// When each loop had its last good round, as its process tells.
async fn last(fleet: &Fleet, roles: &[Role; 2]) -> BTreeMap<&'static str, f64> {
    let mut last = BTreeMap::new();
    for (name, role) in LOOPS {
        let label = format!("loop=\"{name}\"");
        last.insert(
            name,
            fleet.metric(&roles[role], "holdfast_loop_last_success_seconds", &label).await,
        );
    }
    last
}

/// Every loop has had a good round since `when`, and a request passes through all of it.
async fn all_go_on(fleet: &Fleet, roles: &[Role; 2], round: usize) {
    let (back, id) = (Instant::now(), format!("k77-{round}"));
    let before = last(fleet, roles).await;
    eventually("a submit is taken", SOON, async || {
        let item =
            format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload(&id));
        match fleet.post(&item).await.status {
            200 | 202 => Ok(()),
            other => Err(format!("{other}")),
        }
    })
    .await;
    eventually("every loop goes on", SOON, async || {
        let now = last(fleet, roles).await;
        let stuck: Vec<_> = LOOPS.iter().filter(|(name, _)| now[name] <= before[name]).collect();
        if stuck.is_empty() { Ok(()) } else { Err(format!("stuck: {stuck:?}")) }
    })
    .await;
    // A short run has other tests beside it.
    let limit = Duration::from_secs(if full() { 8 } else { 20 });
    assert!(back.elapsed() < limit, "it took {:?}", back.elapsed());
    assert_eq!(fleet.result(&id).await.0, "answered");
    // It is there, so this is told at once: without the five seconds that a wait lasts.
    let told = Instant::now();
    let (again, _) = fleet.result(&id).await;
    assert!(again == "answered" && told.elapsed() < Duration::from_secs(4), "told too late");
}

/// Silence, cut connections, a hanging server: after each of them every loop works again.
#[tokio::test(flavor = "multi_thread")]
async fn every_loop_outlives_silence_and_lost_connections() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let roles = [fleet.worker(), fleet.reclaimer()];
    for role in &roles {
        fleet.ready(role.ops).await;
    }
    // Something is always held, so that there is something to renew.
    let slow = holdfast_testkit::stand_in::Rule::on_body("<held>").delay(Duration::from_secs(300));
    fleet.gateway.script(vec![slow]).expect("a rule");
    fleet.submit("held", &stage::payload("held")).await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    all_go_on(&fleet, &roles, 0).await;

    fleet.redis.command(&["CLIENT", "PAUSE", &time(8.0).as_millis().to_string(), "ALL"]).await;
    pass(time(8.0)).await;
    all_go_on(&fleet, &roles, 1).await;

    for _ in 0..5 {
        fleet.redis.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        fleet.redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        pass(time(0.6)).await;
    }
    all_go_on(&fleet, &roles, 2).await;

    fleet.redis.pause();
    pass(time(20.0)).await;
    fleet.redis.resume();
    all_go_on(&fleet, &roles, 3).await;
    for role in &roles {
        let (status, reasons, _) = stage::probe(&fleet, role.ops, "readyz").await;
        assert_eq!(status, 200, "{reasons}");
    }
    let held = fleet.call("DELETE", "/v1/queues/q/requests/held", b"").await;
    assert!(matches!(held.status, 200 | 202));
    let ids: Vec<String> =
        ["held".to_owned()].into_iter().chain((0..4).map(|it| format!("k77-{it}"))).collect();
    let outcomes = aftermath::of(&fleet, &ids, &roles.iter().collect::<Vec<_>>()).await;
    assert_eq!(outcomes[1..], vec!["answered"; 4]);
}
