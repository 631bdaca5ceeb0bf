//! The dashboard: every expression of it, as Grafana would ask it.

use holdfast_core::metrics::ALL;
use serde_json::Value;

use super::prometheus::Prometheus;
use super::rules::{names, words};

const DASHBOARD: &str = include_str!("../../../deploy/dashboards/holdfast.json");

/// Each expression and its panel, with what Grafana puts in: every queue, and a range of some scrapes.
fn expressions() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title");
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (title, target["expr"].as_str().expect("an expression")))
    });
    let filled = |text: &str| {
        let all = text.replace("$namespace", ".*").replace("$queue", ".*");
        all.replace("$__rate_interval", "10s")
    };
    targets.map(|(title, text)| (title.to_owned(), filled(text))).collect()
}

/// Asks everything; a panel that stays empty over a fleet at work is told.
pub(crate) async fn empty_panels(prometheus: &Prometheus) -> Vec<String> {
    let mut empty = Vec::new();
    for (title, expression) in expressions() {
        if prometheus.query(&expression).await.is_empty() {
            empty.push(format!("{title}: {expression}"));
        }
    }
    empty
}

#[test]
fn the_dashboard_asks_for_every_metric_and_for_no_other() {
    let expressions = expressions();
    assert!(expressions.len() > 30, "{} expressions found", expressions.len());
    let asked: std::collections::BTreeSet<String> =
        expressions.iter().flat_map(|(_, text)| words(text)).collect();
    let exported = names(ALL.iter().map(|metric| metric.name));
    let strange: Vec<_> = asked.difference(&exported).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let is_shown = |name: &str| names([name].into_iter()).iter().any(|it| asked.contains(it));
    let hidden: Vec<_> = ALL.iter().map(|it| it.name).filter(|name| !is_shown(name)).collect();
    assert!(hidden.is_empty(), "no panel shows {hidden:?}");
    for (title, text) in &expressions {
        assert!(!text.contains('$'), "{title} has a variable that nobody fills in: {text}");
    }
}
