//! The samples as rows.

use super::lone::Round;
use crate::report::Row;
use crate::times::{Points, Times};

/// At most so many times the floor, in the middle and of all but one in a hundred.
const P50: f64 = 2.0;
const P99: f64 = 3.0;

type Of = fn(&Round) -> &Times;

/// What was measured, by its name.
const KINDS: [(&str, Of); 4] = [
    ("BLPOP wake-up", |round| &round.bell),
    ("one bare HTTP call", |round| &round.http),
    ("submit to arrival", |round| &round.pickup),
    ("answer of the gateway to that of a caller who waits", |round| &round.back),
];

/// What is compared with the floor, which are the first two together.
const JUDGED: [(&str, Of); 2] =
    [("arrival", |round| &round.pickup), ("answer", |round| &round.back)];

/// The rows of one condition. Its targets are those of an idle system.
pub(super) fn rows(condition: &str, rounds: &[Round], is_judged: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, of) in KINDS {
        let Points { p50, p99, p999 } = Times::joined(rounds.iter().map(of)).points();
        let mut row = Row::new(format!("{condition}: {name}, p50"), "us", p50)
            .note(format!("p99 {p99:.0}, p99.9 {p999:.0}"));
        for (at, round) in rounds.iter().enumerate() {
            row = row.samples(format!("round {}", at + 1), of(round).samples());
        }
        rows.push(row);
    }
    for (name, of) in JUDGED {
        let ratios: Vec<Points> = rounds.iter().map(|round| ratio(round, of)).collect();
        let p50 = ratios.iter().map(|points| points.p50).collect();
        let p99 = ratios.iter().map(|points| points.p99).collect();
        for (point, ratios, target) in [("p50", p50, P50), ("p99", p99, P99)] {
            let row = best(format!("{condition}: {name} / (wake-up + call), {point}"), ratios);
            rows.push(if is_judged { row.at_most(target) } else { row });
        }
    }
    rows
}

/// Point by point.
fn ratio(round: &Round, of: Of) -> Points {
    let floor = round.bell.points().zip(round.http.points(), |bell, http| bell + http);
    of(round).points().zip(floor, |time, floor| time / floor)
}

/// The best of the rounds; the note tells all.
fn best(what: String, ratios: Vec<f64>) -> Row {
    let best = ratios.iter().copied().min_by(f64::total_cmp).expect("a round");
    let all: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let note = format!("best of {}", all.join(", "));
    Row::new(what, "x", best).note(note).samples("ratios", ratios)
}
