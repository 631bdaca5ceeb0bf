//! K86: somebody's script holds up the server.
//!
//! The error that tells of it is one that many clients don't know: workers stop at it, and don't come back.

use std::time::Duration;

use holdfast_testkit::Client;
use tokio::task::JoinSet;

use crate::fleet::{SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

const REQUESTS: usize = 10;

/// An endless script, in the middle of calls: nothing is lost, nobody is charged, all is well soon after its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_costs_a_while_and_nothing_else() {
    let _shared = beside_others().await;
    let (fleet, gateway) = stage::raw(Setup::default(), |_| Answer::ok().after(time(6.0))).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    for role in [&worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    let ids = stage::ids("k86", REQUESTS);
    stage::submit_all(&fleet, &ids).await;
    gateway.wait_for_arrivals(REQUESTS, SOON).await;
    fleet.redis.command(&["CONFIG", "SET", "busy-reply-threshold", "100"]).await;
    let port = fleet.redis.port();
    let mut endless = JoinSet::new();
    endless
        .spawn(async move { Client::new(port).command(&["EVAL", "while true do end", "0"]).await });
    pass(time(10.0)).await;
    let killed = fleet.redis.command(&["SCRIPT", "KILL"]).await;
    assert_eq!(killed.text(), Some("OK"), "{killed:?}: it was not busy");
    drop(endless.join_next().await);

    for id in &ids {
        assert_eq!(
            fleet.result_within(id, Duration::from_secs(5) + time(6.0)).await.0,
            "answered",
            "{id}"
        );
        assert_eq!(fleet.status(id).await["lapses"], 0, "{id} was charged for it");
    }
    fleet.submit("after", &stage::payload("after")).await;
    assert_eq!(
        fleet.result_within("after", Duration::from_secs(5) + time(6.0)).await.0,
        "answered"
    );
    let all: Vec<String> = ids.into_iter().chain(["after".to_owned()]).collect();
    aftermath::of(&fleet, &all, &[&worker, &reclaimer]).await;
}
