//! The rules of the alerts: as they ship, as promtool tries them, and with minutes that last a second.

use std::collections::BTreeSet;
use std::path::PathBuf;

use holdfast_core::metrics::ALL;
use holdfast_testkit::Process;

use super::prometheus::tool;

/// The rules as they ship.
const RULES: &str = include_str!("../../../deploy/alerts/holdfast.yml");

/// What promtool tries them with.
const TRIED: &str = include_str!("../../../deploy/alerts/holdfast_test.yml");

/// The page that says what to do.
const RUNBOOK: &str = include_str!("../../../docs/operations.md");

/// The rules with every minute a second: for a test that makes alerts fire. All their times are whole minutes.
pub(crate) fn hurried() -> String {
    let seconds = RULES.replace(" * 60", " * 1");
    let ends =
        |at: usize| seconds[at + 1..].starts_with(|next: char| !next.is_ascii_alphanumeric());
    let is_minute = |at: usize| {
        let number = seconds[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
        let before = seconds[..at - number].chars().next_back();
        number > 0 && ends(at) && before.is_none_or(|it| !it.is_ascii_alphanumeric())
    };
    let letter = |(at, letter)| if letter == 'm' && is_minute(at) { 's' } else { letter };
    seconds.char_indices().map(letter).collect()
}

/// Rule by rule: its name, and all that stands there of it.
fn rules() -> Vec<(&'static str, &'static str)> {
    let rules = RULES.split("- alert: ").skip(1);
    rules.map(|rule| (rule.lines().next().unwrap_or_default().trim(), rule)).collect()
}

/// `HoldfastRedisUnusable` -> `holdfast-redis-unusable`.
fn kebab(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// What a heading is linked by.
fn anchor_of(line: &str) -> Option<String> {
    let heading = line.starts_with('#').then(|| line.trim_start_matches('#').trim())?;
    Some(heading.to_lowercase().replace(' ', "-"))
}

#[tokio::test]
async fn promtool_sees_each_alert_fire_and_stay_quiet() {
    for (alert, _) in rules() {
        assert!(TRIED.contains(&format!("name: {alert} fires\n")), "{alert} is not seen to fire");
        assert!(TRIED.contains(&format!("{alert} is quiet: ")), "{alert} is not seen to be quiet");
        assert!(TRIED.contains(&format!("alertname: {alert}\n        exp_alerts:\n")), "{alert}");
        assert!(TRIED.contains(&format!("alertname: {alert}, exp_alerts: []")), "{alert}");
    }
    let Some(promtool) = tool("promtool") else { return };
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "deploy", "alerts"].iter().collect();
    for (what, file) in [("check", "holdfast.yml"), ("test", "holdfast_test.yml")] {
        let arguments = [what.into(), "rules".into(), folder.join(file)];
        let done = Process::run(&promtool, &arguments, &[]).await;
        assert!(done.status.success(), "{what}: {}{}", done.stdout, done.stderr);
    }
}

#[test]
fn each_alert_says_how_bad_it_is_and_what_to_do() {
    let headings: BTreeSet<String> = RUNBOOK.lines().filter_map(anchor_of).collect();
    assert!(rules().len() > 10, "{} alerts found", rules().len());
    for (alert, rule) in rules() {
        let anchor = kebab(alert);
        assert!(headings.contains(&anchor), "the runbook has no heading {anchor}");
        assert!(rule.contains(&format!("runbook_url: docs/operations.md#{anchor}\n")), "{alert}");
        for part in ["severity: ", "summary: ", "description: "] {
            assert!(rule.contains(part), "{alert} has no {part}");
        }
    }
    let alerts: BTreeSet<String> = rules().iter().map(|(alert, _)| kebab(alert)).collect();
    let stale: Vec<_> =
        headings.iter().filter(|it| it.starts_with("holdfast-") && !alerts.contains(*it)).collect();
    assert!(stale.is_empty(), "of no alert: {stale:?}");
}

#[test]
fn alerts_ask_only_for_metrics_that_exist() {
    let exported = names(ALL.iter().map(|metric| metric.name));
    for (alert, rule) in rules() {
        for asked in words(rule.split("annotations:").next().unwrap_or_default()) {
            assert!(exported.contains(&asked), "{alert} asks for {asked}");
        }
    }
}

/// The metrics of ours that an expression asks for.
pub(crate) fn words(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("holdfast_")).map(str::to_owned).collect()
}

/// Names of metrics, and those of the series that a histogram has instead.
pub(crate) fn names<'a>(metrics: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let endings = ["", "_bucket", "_count", "_sum"];
    metrics.flat_map(|name| endings.map(|ending| format!("{name}{ending}"))).collect()
}

#[test]
fn a_minute_becomes_a_second_and_nothing_else_changes() {
    let hurried = hurried();
    let left =
        |text: &str| text.split_whitespace().any(|word| word.ends_with("m]") || word == "5m");
    assert!(left(RULES) && !left(&hurried), "{hurried}");
    assert!(hurried.contains("offset 15s") && hurried.contains("> 20 * 1\n"), "{hurried}");
    assert_eq!(RULES.len(), hurried.len() + RULES.matches(" * 60").count());
}
