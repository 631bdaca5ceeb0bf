//! Alerts on a real fleet: what they are for is done to it, and they fire.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use holdfast_testkit::stand_in::{Options, Rule};
use holdfast_testkit::{RedisServer, StandIn, eventually};
use tokio::time::{MissedTickBehavior, interval};

use super::prometheus::Prometheus;
use super::rules;
use crate::fleet::{Fleet, Setup};

/// A minute of the rules is a second here: the longest is twenty.
const LIMIT: Duration = Duration::from_secs(90);

/// What lasts too long, or needs another clock; promtool tries these. That their metrics move is seen with real processes:
/// `tests/cases/k99_skewed_clocks.rs` has clocks that leap and differ, `k10_starved_renewals.rs` renewals that are late.
const BY_PROMTOOL_ALONE: &[&str] =
    &["HoldfastClockLeapt", "HoldfastClockSkewed", "HoldfastRenewalsLate"];

/// What goes wrong while Redis is there.
const WITH_REDIS: &[&str] = &[
    "HoldfastAttemptsFail",
    "HoldfastBreakerOpen",
    "HoldfastDeadLettersGrow",
    "HoldfastDeadlinesMissed",
    "HoldfastDeadlinesNear",
    "HoldfastFilesStale",
    "HoldfastLeaseOverdue",
    "HoldfastLeasesLapse",
    "HoldfastNotClaiming",
    "HoldfastQueueLeftPaused",
    "HoldfastRedisAtRisk",
    "HoldfastSubmitsRefused",
];

/// What its death brings.
const WITHOUT_REDIS: &[&str] =
    &["HoldfastLoopStalled", "HoldfastRedisUnusable", "HoldfastSubmitsFailing"];

/// The queues beside `q`, by what goes wrong in them. One worker serves the first three, two others `lapsing`; nobody
/// serves the rest.
const QUEUES: &[(&str, &str)] = &[
    ("failing", "breaker = false"),
    ("dying", "max_attempts = 1"),
    ("refused", ""),
    ("lapsing", ""),
    ("paused", ""),
    ("late", ""),
    ("near", ""),
    ("full", "capacity = 1"),
];

/// No process yet, on a Redis that keeps nothing: a risk that each role finds out when it starts. `refused` shows its
/// target this credential.
async fn fleet(target: &str, credential: &Path) -> Fleet {
    let redis = RedisServer::start().await;
    redis.command(&["CONFIG", "SET", "appendonly", "no"]).await;
    let section = |(name, lines): &(&str, &str)| {
        let file = format!("credential_file = \"{}\"", credential.display());
        let file = if *name == "refused" { file.as_str() } else { "" };
        format!("[queues.{name}]\ntarget = \"{target}\"\n{lines}\n{file}\n")
    };
    let more = QUEUES.iter().map(section).collect();
    Fleet::without_producer(Setup { more, ..Setup::default() }, redis).await
}

/// Submits to a queue, whatever becomes of it.
async fn submit(fleet: &Fleet, queue: &str, timeout: &str, payload: &str) {
    let item = format!("{{\"timeout\":\"{timeout}\",\"payload\":{{\"do\":\"{payload}\"}}}}");
    fleet.call("POST", &format!("/v1/queues/{queue}/requests"), item.as_bytes()).await;
}

/// What comes in all the time.
async fn traffic(fleet: &Fleet) -> std::convert::Infallible {
    let mut ticks = interval(Duration::from_millis(250));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        tokio::join!(
            submit(fleet, "failing", "10m", "refuse"),
            submit(fleet, "dying", "10m", "cut"),
            submit(fleet, "refused", "10m", "refuse"),
            submit(fleet, "late", "1s", "wait"),
            submit(fleet, "full", "10m", "wait"),
        );
    }
}

/// Waits until each of these alerts has fired.
async fn fired(prometheus: &Prometheus, wanted: &[&str]) {
    let mut missing: BTreeSet<&str> = wanted.iter().copied().collect();
    eventually("each alert fires", LIMIT, async || {
        let firing = prometheus.firing().await;
        missing.retain(|alert| !firing.contains(*alert));
        if missing.is_empty() { Ok(()) } else { Err(format!("quiet: {missing:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_alert_fires_when_what_it_is_for_happens() {
    let target = StandIn::start(Options::default()).await.expect("a stand-in");
    let folder = tempfile::tempdir().expect("a folder");
    let credential = folder.path().join("credential");
    fs::write(&credential, "of-the-target").expect("a credential");
    let fleet = fleet(&target.url(), &credential).await;
    let mut producer = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    let serving = |queues| fleet.worker_with(&[("HOLDFAST_WORKER_QUEUES", queues)]);
    let mut workers = [serving("failing,dying,refused"), serving("lapsing"), serving("lapsing")];
    let mut reclaimer = fleet.reclaimer();
    let ports = workers.iter().map(|it| it.ops).chain([reclaimer.ops, producer.ops]);
    let ports: Vec<u16> = ports.collect();
    for port in &ports {
        fleet.ready(*port).await;
    }
    let Some(prometheus) = Prometheus::start(&ports, &rules::hurried()).await else { return };
    let rest = ["HoldfastAbsent", "HoldfastNoReclaimer"];
    let tried = WITH_REDIS.iter().chain(WITHOUT_REDIS).chain(BY_PROMTOOL_ALONE).chain(&rest);
    let tried: BTreeSet<String> = tried.map(|alert| (*alert).to_owned()).collect();
    assert_eq!(prometheus.alerts().await, tried, "each alert has its place in this test");

    let rule = |text: &str| Rule::on_body(text);
    let rules = vec![rule("refuse").status(503), rule("cut").cut_after(0), rule("hang").hang()];
    target.script(rules).expect("rules");
    fs::write(&credential, "of two\nlines").expect("what is no credential");
    fleet.redis.command(&["HSET", "hf1:{paused/0}:meta", "paused", "1"]).await;
    submit(&fleet, "paused", "10m", "wait").await;
    submit(&fleet, "near", "20s", "wait").await;
    for _ in 0..4 {
        submit(&fleet, "lapsing", "10m", "hang").await;
    }
    target.wait_for_arrivals(4, LIMIT).await.expect("dispatched");
    // Its leases lapse, and the other one has them all.
    workers[1].process.kill();
    tokio::select! {
        () = fired(&prometheus, WITH_REDIS) => {}
        never = traffic(&fleet) => match never {},
    }

    fleet.redis.kill().await;
    tokio::select! {
        () = fired(&prometheus, WITHOUT_REDIS) => {}
        never = traffic(&fleet) => match never {},
    }
    reclaimer.process.kill();
    fired(&prometheus, &["HoldfastNoReclaimer"]).await;
    for worker in &mut workers {
        worker.process.kill();
    }
    producer.process.kill();
    fired(&prometheus, &["HoldfastAbsent"]).await;
}
