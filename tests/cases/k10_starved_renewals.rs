//! K10: a worker that is busy to the limit still renews its leases.
//!
//! Where the sign of life shares a scheduler with the work, a busy worker looks dead, its requests are given to others,
//! and run twice. Here a worker shares one core with a process that takes all it can get, while large answers arrive.

use std::time::Duration;

use bytes::Bytes;
use holdfast_testkit::{Process, eventually};
use tokio::time::sleep;

use crate::fleet::{Role, SOON, Setup};
use crate::pace::{alone, beside_others, count};
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

const REQUESTS: usize = 64;
const LEASE: Duration = Duration::from_secs(5);

/// A core that this process may use.
fn a_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("the state of this process");
    let allowed =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("cores");
    allowed.trim().split(['-', ',']).next().expect("a core").to_owned()
}

/// An answer of so many bytes of JSON.
fn large(size: usize) -> Bytes {
    let mut body = String::with_capacity(size + 64);
    body.push_str("{\"numbers\":[0");
    while body.len() < size {
        body.push_str(",9007199254740993,\"text\",[1.0,{}]");
    }
    body.push_str("]}");
    Bytes::from(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// Renewals that were late by at most half of the lease, and all renewals.
async fn renewals(fleet: &crate::fleet::Fleet, worker: &Role) -> (f64, f64) {
    let in_time = fleet.metric(worker, "holdfast_renew_lag_seconds_bucket", "le=\"2.5\"").await;
    (in_time, fleet.metric(worker, "holdfast_renew_lag_seconds_count", "").await)
}

/// 64 large answers at once, on one core with a competitor: no lease lapses, no renewal is late.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_a_core_of_its_own_keeps_its_leases() {
    let _alone = alone().await;
    let answer = large(count(20, 2) * 1024 * 1024);
    let setup = Setup {
        redis: "command_timeout = \"5s\"".to_owned(),
        worker: stage::worker(REQUESTS, LEASE),
        reclaimer: stage::reclaimer(Duration::from_secs(1)),
        ..Setup::default()
    };
    // Held for a moment, so that all of them come at once.
    let (fleet, gateway) =
        stage::raw(setup, move |_| Answer::raw(answer.clone()).after(Duration::from_secs(3))).await;
    let core = a_core();
    let busy = ["-c", &core, "sh", "-c", "while :; do :; done"];
    let _competitor = Process::start("taskset", &busy, &[]);
    let reclaimer = fleet.reclaimer();
    let ops = holdfast_testkit::free_port();
    let settings = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(settings.path(), fleet.settings("worker", ops)).expect("settings");
    let program = env!("CARGO_BIN_EXE_it-worker");
    let path = settings.path().to_str().expect("a path");
    let process = Process::start("taskset", &["-c", &core, program, "--config", path], &[]);
    let worker = Role { process, ops };
    fleet.ready(worker.ops).await;

    let ids = stage::ids("k10", REQUESTS);
    stage::submit_all(&fleet, &ids).await;
    gateway.wait_for_arrivals(REQUESTS, SOON).await;
    for id in &ids {
        assert_eq!(fleet.result_within(id, Duration::from_secs(300)).await.0, "answered");
    }
    assert_eq!(fleet.metric(&reclaimer, "holdfast_redeliveries_total", "").await, 0.0);
    assert_eq!(gateway.arrivals().len(), REQUESTS, "a request ran twice");
    let (in_time, all) = renewals(&fleet, &worker).await;
    assert!(all > 0.0, "nothing was renewed: nothing was tried");
    assert_eq!(in_time, all, "{} renewals were late by more than half of the lease", all - in_time);
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
}

/// All renewals, and those that were late by more than a second.
async fn late(fleet: &crate::fleet::Fleet, worker: &Role) -> (f64, f64) {
    let in_time = fleet.metric(worker, "holdfast_renew_lag_seconds_bucket", "le=\"1\"").await;
    let all = fleet.metric(worker, "holdfast_renew_lag_seconds_count", "").await;
    (all, all - in_time)
}

/// A worker that stood still for a while says how late its renewals were; as long as the lease runs, nothing else comes of it.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_that_come_late_are_told() {
    let _shared = beside_others().await;
    let setup = Setup { worker: stage::worker(4, Duration::from_secs(30)), ..Setup::default() };
    let fleet = stage::fleet(setup).await;
    let mut worker = fleet.worker_with(&[("HOLDFAST_WORKER_RENEW", "500ms")]);
    fleet.gateway.hold(true);
    let ids = stage::ids("k10", 1);
    stage::submit_all(&fleet, &ids).await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    eventually("it renews", SOON, async || {
        if late(&fleet, &worker).await.0 >= 2.0 { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert_eq!(late(&fleet, &worker).await.1, 0.0, "late before it stood still");
    worker.process.freeze();
    // This long it stands still: more than what the alert takes for late.
    sleep(Duration::from_secs(3)).await;
    worker.process.wake();
    eventually("a late renewal is told", SOON, async || {
        if late(&fleet, &worker).await.1 >= 1.0 { Ok(()) } else { Err("not yet") }
    })
    .await;
    fleet.gateway.hold(false);
    assert_eq!(aftermath::of(&fleet, &ids, &[&worker]).await, ["answered"]);
    assert_eq!(fleet.gateway.arrivals().len(), 1, "the request ran twice");
}
