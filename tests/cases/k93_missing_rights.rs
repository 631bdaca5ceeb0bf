//! K93: a user of Redis that lacks a right.
//!
//! Inside a script a missing right is an error in its midst, without a word of its own: taken for a fault of what was sent,
//! it costs good requests; taken for a lost answer, nobody looks at the user.

use holdfast_testkit::{RedisServer, eventually};
use serde_json::Value;

use crate::aftermath;
use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::stage::{self, Api};

/// What all scripts that move something send.
const RIGHT: &str = "hset";

/// Gives or takes the right.
async fn change(fleet: &Fleet, sign: char) {
    let answer = fleet.redis.command(&["ACL", "SETUSER", "role", &format!("{sign}{RIGHT}")]).await;
    assert_eq!(answer.text(), Some("OK"), "{answer:?}");
}

/// Not ready for this reason, which `named` says by the command, and alive.
async fn is_denied(fleet: &Fleet, role: &Role, named: bool) {
    eventually("it says what it is denied", SOON, async || {
        let (status, text, _) = stage::probe(fleet, role.ops, "readyz").await;
        let told: Value = serde_json::from_str(&text).expect("JSON");
        match (named, told["reasons"]["redis"].as_str()) {
            (true, Some("denied: hset")) | (false, Some("denied")) if status == 503 => Ok(()),
            _ => Err(format!("{status}: {told}")),
        }
    })
    .await;
    assert_eq!(stage::probe(fleet, role.ops, "livez").await.0, 200);
    if named {
        // The call that met it is logged by its own loop, a moment after it was noted.
        eventually("its log names the command", SOON, async || {
            let output = role.process.output();
            if output.contains("its user may not run hset") { Ok(()) } else { Err(output) }
        })
        .await;
    }
}

/// Requests are in flight while a right is taken away; `named`: this server says which right lacks.
async fn a_right_is_taken_away(redis: RedisServer, named: bool) {
    redis.command(&["ACL", "SETUSER", "role", "on", ">pw", "~*", "&*", "+@all"]).await;
    let setup = Setup {
        redis_url: Some(format!("redis://role:pw@127.0.0.1:{}", redis.port())),
        worker: "lease = \"30s\"\nrenew = \"1s\"".to_owned(),
        reclaimer: "every = \"1s\"".to_owned(),
        ..Setup::default()
    };
    let fleet = Fleet::with(setup, redis).await;
    let (api, worker, reclaimer) = (Api::start(&fleet).await, fleet.worker(), fleet.reclaimer());
    for role in [&worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    fleet.gateway.hold(true);
    let mut ids = stage::ids("k93", 10);
    stage::submit_all(&fleet, &ids).await;
    fleet.gateway.wait_for_arrivals(10, SOON).await.expect("dispatched");
    change(&fleet, '-').await;
    // The answers come now, and can't be brought home.
    fleet.gateway.hold(false);
    let item =
        format!("{{\"id\":\"new\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload("new"));
    let answer = api.call(&fleet, "POST", "/v1/queues/q/requests", &item).await.expect("an answer");
    assert_eq!((answer.status, stage::problem_of(&answer).as_str()), (503, "store-denied"));
    assert!(answer.header("retry-after").is_some());
    // One that starts without the right says so too, and does not end.
    let late = fleet.worker();
    for role in [&api.role, &worker, &reclaimer, &late] {
        is_denied(&fleet, role, named).await;
    }
    let (_, text, _) = stage::probe(&fleet, late.ops, "readyz").await;
    assert!(text.contains("queues are not declared yet"), "{text}");
    // What a script did before it was stopped is repeated; nothing that is well was buried for it.
    change(&fleet, '+').await;
    for role in [&worker, &reclaimer, &late] {
        fleet.ready(role.ops).await;
    }
    fleet.submit("new", &stage::payload("new")).await;
    ids.push("new".to_owned());
    let outcomes = aftermath::of(&fleet, &ids, &[&worker, &reclaimer, &late]).await;
    assert_eq!(outcomes, vec!["answered"; ids.len()]);
    for id in &ids {
        assert_eq!(fleet.status(id).await["lapses"], 0, "{id} was charged for it");
    }
    assert_eq!(fleet.gateway.arrivals().len(), ids.len(), "each was sent once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_is_told_by_its_name_and_costs_no_request() {
    let redis = RedisServer::recent(|_| {}).await;
    a_right_is_taken_away(redis, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_name_the_right_is_told_as_denying_one() {
    let redis = RedisServer::start().await;
    let version = redis.command(&["INFO", "server"]).await;
    let named = !version.text().expect("text").contains("redis_version:7.0.");
    a_right_is_taken_away(redis, named).await;
}
