//! K24: deadlines in the wrong unit, out of range, or no numbers at all.
//!
//! Milliseconds read as seconds name the year 50000; what is no number compares false both ways and never falls due.

use serde_json::Value;

use crate::fleet::{Fleet, Setup};
use crate::pace::beside_others;
use crate::{aftermath, stage};

/// What a raw value of a field must lead to.
enum Told {
    /// Taken, and kept exactly.
    Kept,
    /// Refused, naming the field.
    Field,
    /// The same, with the hint that it looks like milliseconds.
    Millis,
    /// Not JSON at all.
    NoJson,
}

/// Raw values of `deadline`, at a moment in Unix seconds.
fn deadlines(now: u64) -> Vec<(String, Told)> {
    use Told::{Field, Kept, Millis, NoJson};
    let mut values = vec![
        (format!("{}", now + 30), Kept),
        (format!("{}", now * 1000 + 30_000), Millis),
        (format!("{}", (now + 30) * 1_000_000), Millis),
        (format!("{}", now - 1), Field),
        (format!("{}", now + 31 * 86_400), Field),
        (format!("{}", now + 29 * 86_400), Kept),
        (format!("{}.0", now + 30), Field),
        (format!("0{}", now + 30), NoJson),
        (format!("+{}", now + 30), NoJson),
        (format!("\"{}\"", now + 30), Field),
        (format!("[{}]", now + 30), Field),
        (format!("{:#x}", now + 30), NoJson),
    ];
    let huge =
        ["9007199254740991", "9007199254740993", "9223372036854775807", "18446744073709551616"];
    values.extend(huge.map(|value| (value.to_owned(), Millis)));
    let odd = [
        "0",
        "-0",
        "-1",
        "-9007199254740993",
        "1e3",
        "1.9e9",
        "2000000000.75",
        "1e308",
        "1e400",
        "2000000000",
        "\"2033-05-18T03:33:20Z\"",
        "\"soon\"",
        "null",
        "true",
        "{}",
        "\"NaN\"",
    ];
    values.extend(odd.map(|value| (value.to_owned(), Field)));
    values.extend(
        ["NaN", "Infinity", "-Infinity", "nan", "0x77359400"]
            .map(|value| (value.to_owned(), NoJson)),
    );
    values
}

/// Raw values of `timeout`.
fn timeouts() -> Vec<(&'static str, Told)> {
    use Told::{Field, Kept};
    let refused = [
        "-1",
        "0",
        "1e18",
        "90",
        "\"90\"",
        "\"0s\"",
        "\"-1s\"",
        "\"1e18s\"",
        "\"1.5h\"",
        "\"31d\"",
        "\"90 s\"",
        "\" 90s\"",
        "\"99999999999999999999s\"",
        "\"18446744073709551615d\"",
        "\"s\"",
        "\"\"",
        "null",
        "[\"90s\"]",
        "\"90S\"",
    ];
    let mut values: Vec<_> = refused.into_iter().map(|value| (value, Field)).collect();
    values.extend(["\"90s\"", "\"30d\"", "\"2h\""].map(|value| (value, Kept)));
    values
}

/// Submits with a raw value; the id if it was taken.
async fn post(
    fleet: &Fleet,
    number: usize,
    field: &str,
    value: &str,
    told: &Told,
) -> Option<String> {
    let id = format!("k24-{field}-{number}");
    let item = format!("{{\"id\":\"{id}\",\"{field}\":{value},\"payload\":{{}}}}");
    let answer = fleet.post(&item).await;
    let problem = answer.text().to_owned();
    if let Told::Kept = told {
        assert_eq!(answer.status, 202, "{field} {value}: {problem}");
        return Some(id);
    }
    assert_eq!(answer.status, 400, "{field} {value}: {problem}");
    let problem: Value = serde_json::from_str(&problem).expect("a problem");
    let detail = problem["detail"].as_str().expect("a detail");
    match told {
        Told::NoJson => {
            assert!(problem["line"].is_u64() && problem["column"].is_u64(), "{value}: {problem}")
        }
        _ => assert_eq!(problem["field"], field, "{value}: {problem}"),
    }
    if matches!(told, Told::Field | Told::Millis)
        && field == "deadline"
        && !detail.contains("passed")
    {
        assert!(
            detail.contains("Unix seconds") && detail.contains("30 days"),
            "unit and range: {value}: {detail}"
        );
    }
    assert_eq!(
        matches!(told, Told::Millis),
        detail.contains("looks like milliseconds"),
        "{value}: {detail}"
    );
    None
}

/// Each value by itself: what is refused leaves nothing, what is taken is kept as it was given.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_usable_deadline_is_refused_by_field_unit_and_range() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let mut taken = Vec::new();
    for (number, (value, told)) in deadlines(stage::unix()).into_iter().enumerate() {
        if let Some(id) = post(&fleet, number, "deadline", &value, &told).await {
            assert_eq!(fleet.status(&id).await["deadline"].to_string(), value, "kept exactly");
            taken.push(id);
        }
    }
    for (number, (value, told)) in timeouts().into_iter().enumerate() {
        taken.extend(post(&fleet, number, "timeout", value, &told).await);
    }
    for field in ["ticket", "request", "pending"] {
        assert_eq!(
            fleet.count(field).await,
            taken.len() as i64,
            "something refused was kept in {field}"
        );
    }
    scores_are_times(&fleet, taken.len()).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    let outcomes = aftermath::of(&fleet, &taken, &[&worker, &reclaimer]).await;
    assert!(outcomes.iter().all(|outcome| outcome == "answered"), "{outcomes:?}");
}

/// Every score is a whole number of milliseconds in this century.
async fn scores_are_times(fleet: &Fleet, count: usize) {
    let members =
        fleet.redis.command(&["ZRANGE", "hf1:{q/0}:pending", "0", "-1", "WITHSCORES"]).await;
    let members = members.array().expect("members");
    assert_eq!(members.len(), 2 * count);
    for score in members.iter().skip(1).step_by(2) {
        let score: u64 = score.text().expect("a score").parse().expect("a whole number");
        assert!((1_700_000_000_000..4_000_000_000_000).contains(&score), "{score}");
    }
}
