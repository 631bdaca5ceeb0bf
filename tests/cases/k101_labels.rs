//! K101: labels that grow with what callers send.
//!
//! Ids, models or queue names as labels: the metrics of a process grow until nobody can read them any more.

use std::collections::BTreeSet;

use crate::aftermath;
use crate::fleet::Fleet;
use crate::fleet::Setup;
use crate::pace::{beside_others, count};
use crate::raw_gateway::{Answer, Asked};
use crate::stage::{self, Api};

/// All series of a process, without their values.
async fn series(fleet: &Fleet, ops: u16) -> BTreeSet<String> {
    let (_, text, took) = stage::probe(fleet, ops, "metrics").await;
    assert!(took < std::time::Duration::from_secs(5), "a scrape took {took:?}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

/// A gateway that answers each request with a status of its own.
fn plan(asked: &Asked<'_>) -> Answer {
    let text = String::from_utf8_lossy(asked.body);
    let number = text.split("<k101-").nth(1).and_then(|rest| rest.split('>').next());
    let number: u16 = number.and_then(|it| it.parse().ok()).expect("a number");
    // Final ones only: 2xx, 4xx but those that ask for another try, and beyond.
    let status = match number % 800 + 200 {
        204 | 205 | 304 => 200,
        300..=399 => 302,
        408 | 409 | 425 | 429 | 500..=599 => 418,
        other => other,
    };
    Answer::with(status, &["x-dropped: \"quoted\\\" }"], "{}")
}

/// Many ids, models, statuses, unknown queues, paths and methods: what is exported stays as small as it was.
#[tokio::test(flavor = "multi_thread")]
async fn what_callers_send_makes_no_series() {
    let _shared = beside_others().await;
    let (fleet, _gateway) = stage::raw(Setup::default(), plan).await;
    let (api, worker) = (Api::start(&fleet).await, fleet.worker());
    fleet.ready(worker.ops).await;
    let requests = count(2_000, 300);
    let (taker, caller) = (&api, &fleet);
    let ids = stage::ids("k101", requests);
    for some in ids.chunks(50) {
        stage::all(some.iter().map(|id| async move {
            let item = format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{{\"model\":\"m-{id}\",\"c\":\"<{id}>\"}}}}");
            let answer = taker.call(caller, "POST", "/v1/queues/q/requests", &item).await.expect("an answer");
            assert_eq!(answer.status, 202);
        }))
        .await;
    }
    for number in 0..requests {
        for (method, path) in [
            ("POST", format!("/v1/queues/unknown-{number}/requests")),
            ("GET", format!("/v1/queues/q/requests/never-{number}")),
            ("GET", format!("/some/path/{number}")),
            ("PATCH", format!("/v1/queues/q/requests/k101-{number}")),
        ] {
            let answer = api.call(&fleet, method, &path, "").await.expect("an answer");
            assert!(answer.status >= 400, "{method} {path}: {}", answer.status);
        }
    }
    aftermath::of(&fleet, &ids, &[&worker]).await;
    for (name, ops, most) in [("producer", api.role.ops, 400), ("worker", worker.ops, 400)] {
        let all = series(&fleet, ops).await;
        assert!(all.len() < most, "{name} exports {} series", all.len());
        for mark in ["k101", "m-", "unknown-", "never-", "path", "PATCH", "quoted"] {
            let found = all.iter().find(|series| series.contains(mark));
            assert_eq!(found, None, "{name}: {mark} is a label");
        }
    }
}
