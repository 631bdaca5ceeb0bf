//! A fleet at work, as Prometheus sees it: every metric of the docs, as it is documented, and every panel.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_core::metrics::{ALL, Kind};
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{RedisServer, eventually};

use super::dashboard;
use super::prometheus::{Labels, Prometheus};
use super::rules;
use crate::collector::Collector;
use crate::fleet::{Fleet, Role, SOON, Setup};

/// More than the longest wait of an alert that a fleet at work could raise; a minute of the rules is a second here.
const QUIET: Duration = Duration::from_secs(12);

/// What stands in every id, tenant and path of this test, and may stand in no label.
const MARK: &str = "marked";

/// What Prometheus adds by itself.
const ADDED: &[&str] = &["__name__", "instance", "job", "le"];

struct Stage {
    fleet: Fleet,
    worker: Role,
    reclaimer: Role,
    heir: Role,
    prometheus: Prometheus,
    _collector: Collector,
}

impl Stage {
    async fn start() -> Option<Self> {
        let redis = RedisServer::start().await;
        let worker = "concurrency = 2\nlease = \"3s\"\nrenew = \"1s\"".to_owned();
        let collector = Collector::start().await;
        let setup = Setup { worker, more: collector.settings(), ..Setup::default() };
        let fleet = Fleet::with(setup, redis).await;
        let (worker, heir, reclaimer) = (fleet.worker(), fleet.worker(), fleet.reclaimer());
        let mut ports = fleet.producers_ops();
        ports.extend([worker.ops, heir.ops, reclaimer.ops]);
        for port in &ports {
            fleet.ready(*port).await;
        }
        let prometheus = Prometheus::start(&ports, &rules::hurried()).await?;
        Some(Self { fleet, worker, reclaimer, heir, prometheus, _collector: collector })
    }

    /// One request after the other, all answered; no alert fires.
    async fn works(&self) {
        // Before the first scrape nothing was there, which is an alert for the moment that it takes to look again.
        eventually("what was told before the first scrape is over", SOON, async || {
            let firing = self.prometheus.firing().await;
            if firing.is_empty() { Ok(()) } else { Err(format!("{firing:?}")) }
        })
        .await;
        let began = Instant::now();
        let mut number = 0;
        while began.elapsed() < QUIET {
            let id = format!("{MARK}-{number}");
            self.fleet.submit(&id, "{}").await;
            assert_eq!(self.fleet.result(&id).await.0, "answered");
            let firing = self.prometheus.firing().await;
            assert!(firing.is_empty(), "all is well, and yet: {firing:?}");
            number += 1;
        }
        assert!(number > 10, "only {number} requests went through");
    }

    /// What callers may send, and what makes no series of its own.
    async fn is_called_badly(&self) {
        let before = self.prometheus.query("count({__name__=~\"holdfast_http.*\"})").await;
        for number in 0..50 {
            let name = format!("{MARK}{number}");
            let item = format!("{{\"id\":\"{name}\"}}");
            for (method, path) in [
                ("POST", format!("/v1/queues/{name}/requests")),
                ("POST", "/v1/queues/q/requests".to_owned()),
                ("GET", format!("/v1/queues/q/requests/{name}")),
                ("GET", format!("/{name}")),
                ("PATCH", format!("/v1/queues/q/requests/{name}")),
            ] {
                let body = if method == "POST" { item.as_str() } else { "" };
                let answer = self.fleet.call(method, &path, body.as_bytes()).await;
                assert!((400..500).contains(&answer.status), "{method} {path}: {}", answer.status);
            }
        }
        let count = |found: &[(Labels, f64)]| found.first().map_or(0.0, |(_, count)| *count);
        let after = self.prometheus.query("count({__name__=~\"holdfast_http.*\"})").await;
        // A counter and a histogram for each of five routes and codes, at the most.
        let grown = count(&after) - count(&before);
        assert!(grown < 5.0 * 25.0, "{grown} series more");
    }

    /// Retries, a cancel, leases that lapse with and without a witness, a deadline that passes, a Redis that restarts.
    async fn is_disturbed(&mut self) {
        let fleet = &self.fleet;
        fleet.gateway.script(vec![Rule::new().status(503).times(1)]).expect("a rule");
        let (repeated, cancelled) = (format!("{MARK}-repeated"), format!("{MARK}-cancelled"));
        fleet.submit(&repeated, "{}").await;
        assert_eq!(fleet.result(&repeated).await.0, "answered");
        fleet.gateway.hold(true);
        let arrived = fleet.gateway.counts().arrived;
        for number in 0..4 {
            fleet.submit(&format!("{MARK}-held-{number}"), "{}").await;
        }
        fleet.gateway.wait_for_arrivals(arrived + 4, SOON).await.expect("dispatched");
        fleet.submit(&cancelled, "{}").await;
        fleet.call("DELETE", &format!("/v1/queues/q/requests/{cancelled}"), b"").await;
        assert_eq!(fleet.result(&cancelled).await.0, "cancelled");
        // Each worker holds two of them; one is killed while the reclaimer looks on.
        let held =
            "min(holdfast_leases_held) == 2 and count(holdfast_renew_lag_seconds_count) == 2";
        self.is_seen(held).await;
        self.worker.process.kill();
        self.is_seen("sum(holdfast_lapses_total) > 0 and sum(holdfast_redeliveries_total) > 0")
            .await;
        fleet.redis.restart().await;
        fleet.ready(self.reclaimer.ops).await;
        fleet.ready(self.heir.ops).await;
        let late = format!("{{\"id\":\"{MARK}-late\",\"timeout\":\"1s\",\"payload\":{{}}}}");
        fleet.post(&late).await;
        self.is_seen("sum(holdfast_ends_total{outcome=\"deadline-exceeded\"}) > 0").await;
        self.is_seen("sum(holdfast_redis_reconnects_total) > 0").await;
    }

    /// Waits until an expression gives something.
    async fn is_seen(&self, expression: &str) {
        eventually(expression, SOON, async || {
            if self.prometheus.query(expression).await.is_empty() {
                Err("nothing yet")
            } else {
                Ok(())
            }
        })
        .await;
    }
}

/// Every metric with the type and the labels of the docs, and none that is not there.
async fn is_as_documented(prometheus: &Prometheus) {
    let kinds = prometheus.kinds().await;
    let ours: BTreeSet<&str> =
        kinds.keys().map(String::as_str).filter(|name| name.starts_with("holdfast_")).collect();
    assert_eq!(ours, ALL.iter().map(|metric| metric.name).collect());
    for metric in ALL {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        assert_eq!(kinds[metric.name], kind, "{}", metric.name);
        let series = if kind == "histogram" {
            format!("{}_bucket", metric.name)
        } else {
            metric.name.to_owned()
        };
        let series = prometheus.series(&series).await;
        assert!(!series.is_empty(), "{} has no series", metric.name);
        let documented: BTreeSet<&str> = metric.labels.iter().copied().collect();
        for labels in series {
            let names = labels.keys().map(String::as_str).filter(|name| !ADDED.contains(name));
            assert_eq!(names.collect::<BTreeSet<_>>(), documented, "{}", metric.name);
        }
    }
}

/// No label holds what a caller sent, an address, or a queue that is not declared; a scrape stays small.
async fn is_bounded(prometheus: &Prometheus) {
    for labels in prometheus.series("{__name__=~\"holdfast_.*\"}").await {
        for (name, value) in labels.iter().filter(|(name, _)| !ADDED.contains(&name.as_str())) {
            let is_foreign =
                value.contains(MARK) || value.contains("://") || value.contains("127.");
            assert!(!is_foreign, "{name}={value}");
            assert!(name != "queue" || value == "q", "{name}={value}");
            assert!(name == "route" || !value.contains('/'), "{name}={value}");
        }
    }
    let samples = prometheus.query("max(scrape_samples_scraped)").await;
    assert!(samples[0].1 < 1_500.0, "{samples:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_at_work_raises_no_alert_and_fills_every_metric_and_every_panel() {
    let Some(mut stage) = Stage::start().await else { return };
    stage.works().await;
    stage.is_called_badly().await;
    stage.is_disturbed().await;
    is_as_documented(&stage.prometheus).await;
    is_bounded(&stage.prometheus).await;
    let empty = dashboard::empty_panels(&stage.prometheus).await;
    assert!(empty.is_empty(), "panels without data:\n{}", empty.join("\n"));
}
