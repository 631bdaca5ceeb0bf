//! Every function above counts what `ALL` says, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const A_WHILE: Duration = Duration::from_millis(3);

/// Calls every function once, for one queue.
fn everything() {
    submitted("q", "accepted");
    claimed("q", ClaimOutcome::Full);
    waited("q", A_WHILE);
    dispatched("q", status_class(200), A_WHILE);
    settled("q", SettleOutcome::Ack);
    ended("q", "answered");
    retried("q", "5xx");
    leases_held("q", 1);
    in_flight("q", 1);
    gate("q", 1, 1);
    gate_cut("q", "429");
    gate_stale_files("q", false);
    renew_lag(A_WHILE);
    lapsed("q", 1);
    forgiven("q", 1);
    redelivered("q", 1);
    clock_skipped("sweep");
    queue_requests("q", "pending", 1);
    head_age("q", 1.0);
    head_slack("q", 1.0);
    oldest_lease("q", 1.0);
    queue_paused("q", false);
    script_ran("claim", A_WHILE);
    redis_up(true);
    redis_reconnected();
    clock_skew(0.1);
    redis_fault("eviction-policy", true);
    loop_succeeded("sweep", 1.0);
    http_request("/v1/queues", 200, A_WHILE);
    file_stale("keys_file", true);
    spans(SpanOutcome::Exported, 1);
    build_info("0.1.0", 1);
}

fn rendered(calls: impl Fn()) -> String {
    let recorder = recorder().unwrap();
    metrics::with_local_recorder(&recorder, || {
        describe();
        calls();
    });
    recorder.handle().render()
}

/// Name and type of everything in a rendering.
fn types(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    lines.filter_map(|line| line.split_once(' ')).collect()
}

#[test]
fn what_is_exported_is_what_is_listed_and_the_other_way_round() {
    let text = rendered(everything);
    let listed: BTreeMap<&str, &str> =
        ALL.iter().map(|metric| (metric.name, word(metric))).collect();
    assert_eq!(types(&text), listed);
}

fn word(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    }
}

#[test]
fn each_series_carries_exactly_the_labels_that_are_listed() {
    let text = rendered(everything);
    for metric in ALL {
        let starts = [format!("{}{{", metric.name), format!("{}_bucket{{", metric.name)];
        let line = text.lines().find(|line| starts.iter().any(|start| line.starts_with(start)));
        let labels = line.and_then(|line| line.split_once('{')?.1.split_once('}'));
        let names: BTreeSet<&str> = labels
            .map_or("", |(labels, _)| labels)
            .split(',')
            .filter_map(|label| label.split_once('='))
            .map(|(name, _)| name)
            .filter(|name| *name != "le")
            .collect();
        assert_eq!(names, metric.labels.iter().copied().collect(), "{}", metric.name);
    }
}

#[test]
fn names_say_their_kind_and_every_metric_has_help() {
    let text = rendered(everything);
    for metric in ALL {
        assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{metric:?}");
        assert!(text.contains(&format!("# HELP {} ", metric.name)), "{metric:?}");
        if let Kind::Histogram(buckets) = metric.kind {
            assert!(buckets.is_sorted() && !buckets.is_empty(), "{metric:?}");
        }
    }
}

#[test]
fn a_strange_label_value_is_escaped() {
    let text = rendered(|| leases_held("a\"b\\c\nd", 1));
    assert!(text.contains(r#"{queue="a\"b\\c\nd"} 1"#), "{text}");
}

#[test]
fn statuses_have_six_labels_whatever_is_answered() {
    let classes: BTreeSet<&str> = (0..=u16::MAX).map(status_class).collect();
    assert_eq!(classes.len(), 6);
    assert_eq!((status_class(204), status_class(599), status_class(999)), ("2xx", "5xx", "other"));
}

#[test]
fn installing_twice_hands_out_the_same_recorder() {
    let (first, second) = (install().unwrap(), install().unwrap());
    redis_fault("installed-twice", true);
    assert!(first.render().contains("installed-twice"));
    assert!(second.render().contains("installed-twice"));
}
