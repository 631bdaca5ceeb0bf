//! `docs/metrics.md` lists what the roles export, and the roles export what it lists.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_core::metrics::{ALL, Kind, Part};
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{RedisServer, eventually};

use crate::collector::Collector;
use crate::fleet::{Fleet, LEASE, Role, SOON, Setup};

const PAGE: &str = include_str!("../../docs/metrics.md");

/// A line of the page's table, cell by cell.
struct Row {
    name: &'static str,
    kind: &'static str,
    labels: Vec<&'static str>,
    part: &'static str,
    by: &'static str,
}

impl Row {
    fn is_of(&self, role: &str) -> bool {
        self.by == "every role" || self.by.split(", ").any(|by| by == role)
    }
}

fn rows() -> Vec<Row> {
    let lines = PAGE.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<Row> = lines.map(row).collect();
    assert!(rows.len() > 20, "{} rows found", rows.len());
    rows
}

fn row(line: &'static str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [name, kind, labels, part, by, _] = cells[..] else { panic!("not six cells: {line}") };
    let labels = labels.split(", ").filter(|label| !label.is_empty()).collect();
    Row { name: name.trim_matches('`'), kind, labels, part, by }
}

#[test]
fn each_row_says_of_a_metric_what_the_code_says() {
    let rows = rows();
    assert_eq!(rows.len(), ALL.len());
    for (row, metric) in rows.iter().zip(ALL) {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let part = match metric.part {
            Part::Main => "main",
            Part::Operators => "operators",
            Part::Gates => "gates",
        };
        assert_eq!((row.name, row.kind, row.part), (metric.name, kind, part));
        assert_eq!(row.labels, metric.labels, "{}", row.name);
        assert!(
            ["producer", "worker", "reclaimer"].iter().any(|role| row.is_of(role)),
            "{}",
            row.name
        );
    }
}

/// What a role exports of ours.
async fn exported(fleet: &Fleet, role: &Role) -> BTreeSet<String> {
    let url = format!("http://127.0.0.1:{}/metrics", role.ops);
    let told = fleet.http.request("GET", &url, &[], "").await;
    let types = told.text().lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.filter_map(|line| line.split(' ').next());
    names.filter(|name| name.starts_with("holdfast_")).map(str::to_owned).collect()
}

/// Waits until a role exports everything that the page says of it. It never exports anything else.
async fn exports_what_the_page_says(fleet: &Fleet, name: &str, role: &Role) {
    let said: BTreeSet<String> =
        rows().iter().filter(|row| row.is_of(name)).map(|row| row.name.to_owned()).collect();
    eventually(&format!("the {name} exports what the page says"), SOON, async || {
        let there = exported(fleet, role).await;
        let unsaid: Vec<_> = there.difference(&said).collect();
        assert!(unsaid.is_empty(), "the page does not say of the {name}: {unsaid:?}");
        let missing: Vec<_> = said.difference(&there).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("it lacks {missing:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_exports_exactly_what_the_page_says_of_it() {
    let collector = Collector::start().await;
    let setup = Setup { more: collector.settings(), ..Setup::default() };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let producer = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    let (mut worker, mut reclaimer) = (fleet.worker(), fleet.reclaimer());
    for role in [&producer, &worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }

    // A try that is repeated, an answer, a cancel of what waits, and a call that runs for longer than a renewal.
    fleet.gateway.script(vec![Rule::new().status(503).times(1)]).expect("a rule");
    fleet.submit("repeated", "{}").await;
    assert_eq!(fleet.result("repeated").await.0, "answered");
    fleet.post(&waits_for_a_minute("cancelled")).await;
    fleet.call("DELETE", "/v1/queues/q/requests/cancelled", b"").await;
    assert_eq!(fleet.result("cancelled").await.0, "cancelled");
    exports_what_the_page_says(&fleet, "producer", &producer).await;
    fleet.gateway.hold(true);
    fleet.submit("held", "{}").await;
    exports_what_the_page_says(&fleet, "worker", &worker).await;

    // A worker that is killed, one that is killed while nobody looks, and a deadline that passes in the queue.
    worker.process.kill();
    fleet.wait_for_count("pending", 1, SOON).await;
    let arrived = fleet.gateway.counts().arrived;
    let mut heir = fleet.worker();
    fleet.gateway.wait_for_arrivals(arrived + 1, SOON).await.expect("dispatched again");
    reclaimer.process.freeze();
    heir.process.kill();
    passed(LEASE + Duration::from_secs(1)).await;
    reclaimer.process.wake();
    fleet.wait_for_count("pending", 1, SOON).await;
    fleet.post("{\"id\":\"late\",\"timeout\":\"1s\",\"payload\":{}}").await;
    exports_what_the_page_says(&fleet, "reclaimer", &reclaimer).await;
}

/// An item whose start lies ahead.
fn waits_for_a_minute(id: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "a start is no lease")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let start = now.expect("a clock after 1970").as_secs() + 60;
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"not_before\":{start},\"payload\":{{}}}}")
}

/// Waits until so much time is over: a lease must run out that nobody looks at.
async fn passed(time: Duration) {
    let began = Instant::now();
    let over = async || if began.elapsed() >= time { Ok(()) } else { Err("not yet") };
    eventually("time passes", SOON, over).await;
}
