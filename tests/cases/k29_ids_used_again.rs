//! K29: an id is used again after its request has ended.
//!
//! Where a mark of the first run outlives it, the second one is swallowed, and its caller polls for ever; or the first one's
//! result is handed out as the second's.

use serde_json::Value;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, count};
use crate::raw_gateway::{Answer, Asked, RawGateway};
use crate::{aftermath, stage};

/// How a first run ends.
const WAYS: [(&str, &str); 4] = [
    ("read", "answered"),
    ("unread", "answered"),
    ("cancelled", "cancelled"),
    ("failed", "gave-up"),
];

/// An item of an id, with a text that tells its run.
fn item(id: &str, text: &str) -> String {
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload(text))
}

/// Says back what it was asked; breaks off where that says so.
fn plan(asked: &Asked<'_>) -> Answer {
    match asked.has("<failed>") {
        true => Answer::raw("no HTTP\r\n"),
        false => Answer::with(200, &[], std::str::from_utf8(asked.body).expect("ASCII")),
    }
}

async fn stage_with_workers() -> (Fleet, RawGateway, Role, Role) {
    let setup = Setup { queue: "max_attempts = 1".to_owned(), ..Setup::default() };
    let (fleet, gateway) = stage::raw(setup, plan).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    fleet.ready(reclaimer.ops).await;
    (fleet, gateway, worker, reclaimer)
}

/// What a submit was told: its status, whether it is a repeat, and the body.
async fn submit(fleet: &Fleet, item: &str) -> (u16, bool, Value) {
    let answer = fleet.post(item).await;
    let replayed = answer.header("idempotent-replayed") == Some("true");
    (answer.status, replayed, serde_json::from_slice(&answer.body).expect("JSON"))
}

/// A first run, and what asks for an end where that does not come by itself: its generation.
async fn first_run(fleet: &Fleet, id: &str, item: &str) -> Value {
    let (status, replayed, told) = submit(fleet, item).await;
    assert_eq!((status, replayed), (202, false), "{id}: {told}");
    match id {
        "read" => assert_eq!(fleet.result(id).await.0, "answered"),
        "cancelled" => {
            let path = format!("/v1/queues/q/requests/{id}");
            assert_eq!(fleet.call("DELETE", &path, b"").await.status, 200);
        }
        _ => {}
    }
    told["generation"].clone()
}

/// The first item of an id. The one that is to be cancelled does not start for a while.
fn first_item(id: &str) -> String {
    let (start, payload) = (stage::unix() + 300, stage::payload(id));
    let start = if id == "cancelled" { format!("\"not_before\":{start},") } else { String::new() };
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",{start}\"payload\":{payload}}}")
}

/// Puts the end of every retention into the past, and waits until the sweep has been there.
async fn retention_ends(fleet: &Fleet) {
    for home in ["finished", "dead"] {
        let key = format!("hf1:{{q/0}}:{home}");
        let members = fleet.redis.command(&["ZRANGE", &key, "0", "-1"]).await;
        for member in members.array().expect("members").iter().filter_map(|it| it.bytes()) {
            fleet.redis.command(&[&b"ZADD"[..], key.as_bytes(), b"XX", b"1", member]).await;
        }
        fleet.wait_for_count(home, 0, SOON).await;
    }
}

/// Kept, an id means its first run to everybody, and says so; swept, it is as new.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_means_one_run_while_that_is_kept_and_another_one_after() {
    let _shared = beside_others().await;
    let (fleet, gateway, worker, reclaimer) = stage_with_workers().await;
    let mut first = Vec::new();
    for (id, _) in WAYS {
        let item = first_item(id);
        first.push((first_run(&fleet, id, &item).await, item));
    }
    fleet.wait_for_count("finished", 3, SOON).await;
    fleet.wait_for_count("dead", 1, SOON).await;
    for ((id, outcome), (generation, sent)) in WAYS.iter().zip(&first) {
        let (status, _, told) = submit(&fleet, &item(id, "second")).await;
        assert_eq!((status, &told["type"]), (422, &"/problems/id-reused".into()), "{id}");
        let home = if *outcome == "gave-up" { "dead" } else { "finished" };
        assert_eq!((&told["state"], &told["generation"]), (&home.into(), generation), "{id}");
        let (status, replayed, told) = submit(&fleet, sent).await;
        assert_eq!((status, replayed, &told["generation"]), (200, true, generation), "{id}");
        let (kept, result) = fleet.result(id).await;
        assert_eq!(kept, *outcome, "{id}");
        if kept == "answered" {
            assert_eq!(result.text(), stage::payload(id), "{id}");
        }
    }

    retention_ends(&fleet).await;
    let ids = WAYS.map(|(id, _)| id.to_owned());
    for (id, (before, _)) in ids.iter().zip(&first) {
        let (status, replayed, told) = submit(&fleet, &item(id, "second")).await;
        assert_eq!((status, replayed), (202, false), "{id}: {told}");
        assert_ne!(&told["generation"], before, "{id}");
        let (outcome, result) = fleet.result(id).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", &*stage::payload("second")));
        assert_eq!(result.header("holdfast-generation"), told["generation"].as_str(), "{id}");
        let pinned = before.as_str().expect("a generation");
        let path = format!("/v1/queues/q/requests/{id}/result?generation={pinned}");
        assert_eq!(fleet.call("GET", &path, b"").await.status, 404, "{id}: the old one is gone");
    }
    assert_eq!(gateway.arrivals_of("<second>").len(), ids.len());
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
}

/// Other bytes that come within the moment of the first run's end, each time: told by the same rule before and after it, and
/// never taken and forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn other_bytes_that_meet_the_end_are_refused_and_change_nothing() {
    let _shared = beside_others().await;
    let (fleet, gateway, worker, reclaimer) = stage_with_workers().await;
    let ids = stage::ids("k29", count(200, 40));
    for id in &ids {
        let (status, _, first) = submit(&fleet, &item(id, id)).await;
        assert_eq!(status, 202);
        let mut states = Vec::new();
        while states.last().is_none_or(|state| state != "finished") {
            assert!(states.len() < 2_000, "{id} does not end");
            let (status, _, told) = submit(&fleet, &item(id, "second")).await;
            assert_eq!((status, &told["generation"]), (422, &first["generation"]), "{id}");
            states.push(told["state"].as_str().expect("a state").to_owned());
        }
        let (status, replayed, again) = submit(&fleet, &item(id, id)).await;
        assert_eq!((status, replayed), (200, true), "{id}");
        assert_eq!(again["generation"], first["generation"], "{id}");
        assert_eq!(fleet.result(id).await.1.text(), stage::payload(id));
    }
    assert_eq!(gateway.arrivals_of("<second>").len(), 0);
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
}
