//! K93: a user of Redis that lacks a right.
//!
//! Inside a script a missing right is an error in its midst, without a word of its own: taken for a fault of what was sent,
//! it costs good requests; taken for a lost answer, nobody looks at the user. And a move that stops between two writes
//! leaves its request in two homes, or in none.

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

/// Not ready for this reason, which is told by the names of the rights, and alive.
async fn is_denied(fleet: &Fleet, role: &Role, rights: &str) {
    eventually("it says what it is denied", SOON, async || {
        let (status, text, _) = stage::probe(fleet, role.ops, "readyz").await;
        let told: Value = serde_json::from_str(&text).expect("JSON");
        match told["reasons"]["redis"].as_str() {
            Some(reason) if status == 503 && reason == format!("denied: {rights}") => Ok(()),
            _ => Err(format!("{status}: {told}")),
        }
    })
    .await;
    assert_eq!(stage::probe(fleet, role.ops, "livez").await.0, 200);
}

/// Waits until its ops port answers, ready or not.
async fn is_there(fleet: &Fleet, role: &Role) {
    let url = format!("http://127.0.0.1:{}/livez", role.ops);
    eventually("it is there", SOON, async || {
        fleet.http.try_request("GET", &url, &[], "").await.map(drop).map_err(|err| err.to_string())
    })
    .await;
}

/// Waits for a text in the log of a role.
async fn logs(role: &Role, text: &str) {
    eventually(&format!("its log says {text:?}"), SOON, async || {
        let output = role.process.output();
        if output.contains(text) { Ok(()) } else { Err(output) }
    })
    .await;
}

/// A fleet whose roles are a user of their own in Redis, who may do everything but these.
async fn setup(redis: &RedisServer, rules: &[&str]) -> Setup {
    let all = ["ACL", "SETUSER", "role", "on", ">pw", "~*", "&*", "+@all"];
    redis.command(&[&all[..], rules].concat()).await;
    Setup {
        redis_url: Some(format!("redis://role:pw@127.0.0.1:{}", redis.port())),
        worker: "lease = \"30s\"\nrenew = \"1s\"".to_owned(),
        reclaimer: "every = \"1s\"".to_owned(),
        ..Setup::default()
    }
}

/// Requests are in flight while a right is taken away.
async fn a_right_is_taken_away(redis: RedisServer) {
    let fleet = Fleet::with(setup(&redis, &[]).await, redis).await;
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
        is_denied(&fleet, role, RIGHT).await;
    }
    for role in [&worker, &reclaimer] {
        // The call that met it is logged by its own loop, a moment after it was noted.
        logs(role, "its user may not run hset").await;
    }
    logs(&late, "the user of redis lacks rights that this role needs").await;
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
    a_right_is_taken_away(RedisServer::recent(|_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_is_told_by_its_name_by_an_older_server_too() {
    a_right_is_taken_away(RedisServer::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_starts_without_rights_names_each_and_does_nothing_before_they_are_granted() {
    let redis = RedisServer::start().await;
    let setup = setup(&redis, &["-zadd", "-hexists", "-zscore"]).await;
    let fleet = Fleet::without_producer(setup, redis).await;
    let (api, worker, reclaimer) = (Api::begin(&fleet), fleet.worker(), fleet.reclaimer());
    let roles = [&api.role, &worker, &reclaimer];
    // A worker looks for no request in a hash.
    for (role, rights) in
        roles.into_iter().zip(["hexists zadd zscore", "zadd zscore", "hexists zadd zscore"])
    {
        is_there(&fleet, role).await;
        is_denied(&fleet, role, rights).await;
        logs(role, "the user of redis lacks rights that this role needs").await;
    }
    let item = format!("{{\"id\":\"a\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload("a"));
    let answer = api.call(&fleet, "POST", "/v1/queues/q/requests", &item).await.expect("an answer");
    assert_eq!(stage::problem_of(&answer), "store-denied", "{}", answer.text());
    assert!(answer.text().contains("nothing was changed"), "{}", answer.text());
    let keys = fleet.redis.command(&["KEYS", "*"]).await;
    assert_eq!(keys.array().map(<[_]>::len), Some(0), "no role did anything: {keys:?}");

    fleet.redis.command(&["ACL", "SETUSER", "role", "+zadd", "+hexists", "+zscore"]).await;
    for role in roles {
        fleet.ready(role.ops).await;
    }
    let answer = api.call(&fleet, "POST", "/v1/queues/q/requests", &item).await.expect("an answer");
    assert_eq!(answer.status, 202, "{}", answer.text());
    eventually("it is answered", SOON, async || {
        let path = "/v1/queues/q/requests/a";
        let told = api.call(&fleet, "GET", path, "").await.expect("an answer");
        if told.text().contains("answered") { Ok(()) } else { Err(told.text().to_owned()) }
    })
    .await;
}

/// One that does nothing meets no denial: only asking finds it out.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_asks_for_its_rights_again_when_its_connection_is_a_new_one() {
    let redis = RedisServer::start().await;
    let fleet = Fleet::without_producer(setup(&redis, &[]).await, redis).await;
    let api = Api::start(&fleet).await;
    fleet.ready(api.role.ops).await;
    fleet.redis.command(&["ACL", "SETUSER", "role", "-zadd"]).await;
    assert_eq!(stage::probe(&fleet, api.role.ops, "readyz").await.0, 200);
    fleet.redis.command(&["CLIENT", "KILL", "USER", "role"]).await;
    is_denied(&fleet, &api.role, "zadd").await;
}
