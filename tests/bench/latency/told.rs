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

/// What is compared with the first two together, and the bare hops that lie under it.
const JUDGED: [(&str, Of, Of); 2] = [
    ("arrival", |round| &round.pickup, |round| &round.bare_pickup),
    ("answer", |round| &round.back, |round| &round.bare_back),
];

/// What the bare hops are.
const BARE: &str = "the hops alone: a caller, a process that pushes to Redis, one that its BLPOP wakes and that calls the gateway, and back over a second \
list; no ids, owners, deadlines, and what is popped is lost with who popped it";

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
    for (name, of, bare) in JUDGED {
        let floor = is_judged.then(|| bare_hops(rounds, bare));
        let ratios: Vec<Points> = rounds.iter().map(|round| ratio(round, of)).collect();
        let p50 = ratios.iter().map(|points| points.p50).collect();
        let p99 = ratios.iter().map(|points| points.p99).collect();
        for (at, (point, ratios, target)) in
            [("p50", p50, P50), ("p99", p99, P99)].into_iter().enumerate()
        {
            let row = best(format!("{condition}: {name} / (wake-up + call), {point}"), ratios);
            rows.push(match &floor {
                Some(floor) => {
                    let (figure, us) = floor[at];
                    row.at_most(target).floor(figure, format!("{us:.0} us: {BARE}"))
                }
                None => row,
            });
        }
    }
    rows
}

/// The bare hops beside the same two: the best of the rounds and the µs of all, for the p50 and the p99.
fn bare_hops(rounds: &[Round], of: Of) -> [(f64, f64); 2] {
    let all = Times::joined(rounds.iter().map(of)).points();
    let best = |read: fn(Points) -> f64| {
        let ratios = rounds.iter().map(|round| read(ratio(round, of)));
        ratios.min_by(f64::total_cmp).expect("a round")
    };
    [(best(|it| it.p50), all.p50), (best(|it| it.p99), all.p99)]
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
