//! The figures added up, as a table and as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::{drain, idle};
use crate::Output;
use crate::machine::Machine;
use crate::times::{Points, Times};

/// At most so many times the floor is what an idle system may take.
const TARGET: f64 = 3.0;

/// All that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    /// Before and after.
    load: [f64; 2],
    concurrency: u16,
    target: f64,
    idle: Idle,
    idle_rounds: Vec<idle::Round>,
    drain_rounds: Vec<drain::Round>,
}

/// The idle system in a few figures.
#[derive(Debug, Serialize)]
struct Idle {
    bell: Points,
    http: Points,
    submit: Points,
    pickup: Points,
    /// The pickup as a multiple of bell and http together: over all samples, and of each round.
    ratio: Points,
    ratio_of_rounds: Vec<Points>,
}

impl Idle {
    fn of(rounds: &[idle::Round]) -> Self {
        let all =
            |times: fn(&idle::Round) -> &Times| Times::joined(rounds.iter().map(times)).points();
        let (bell, http, pickup) = (all(|it| &it.bell), all(|it| &it.http), all(|it| &it.pickup));
        Self {
            bell,
            http,
            submit: all(|it| &it.submit),
            pickup,
            ratio: ratio(pickup, bell, http),
            ratio_of_rounds: rounds
                .iter()
                .map(|it| ratio(it.pickup.points(), it.bell.points(), it.http.points()))
                .collect(),
        }
    }
}

fn ratio(pickup: Points, bell: Points, http: Points) -> Points {
    pickup.zip(bell.zip(http, |bell, http| bell + http), |pickup, floor| pickup / floor)
}

impl Report {
    pub(super) fn new(
        machine: Machine,
        load: [f64; 2],
        concurrency: u16,
        idle_rounds: Vec<idle::Round>,
        drain_rounds: Vec<drain::Round>,
    ) -> Self {
        let idle = Idle::of(&idle_rounds);
        Self { machine, load, concurrency, target: TARGET, idle, idle_rounds, drain_rounds }
    }

    /// Whether the median of all samples is.
    pub(super) fn is_within_target(&self) -> bool {
        self.idle.ratio.p50 <= self.target
    }

    pub(super) fn told(&self, output: Output) -> String {
        match output {
            Output::Json => serde_json::to_string(self).expect("figures are JSON"),
            Output::Text => self.table(),
        }
    }

    fn table(&self) -> String {
        let [before, after] = self.load;
        let mut table =
            format!("{}\nload {before:.2} before, {after:.2} after\n\n", self.machine.told());
        let samples = self.idle_rounds.len();
        writeln!(table, "idle, {samples} rounds, in microseconds{:>12}{:>10}", "p50", "p99")
            .expect("text");
        let Idle { bell, http, submit, pickup, ratio, ratio_of_rounds } = &self.idle;
        for (name, points) in [
            ("BLPOP wake-up", bell),
            ("one bare HTTP call", http),
            ("submit to its 202", submit),
            ("submit to arrival at the gateway", pickup),
        ] {
            writeln!(table, "  {name:<33}{:>10.0}{:>10.0}", points.p50, points.p99).expect("text");
        }
        row(&mut table, "arrival / (wake-up + call)", ratio);
        for (at, points) in ratio_of_rounds.iter().enumerate() {
            row(&mut table, &format!("  round {}", at + 1), points);
        }
        let best = ratio_of_rounds.iter().map(|points| points.p50).fold(f64::INFINITY, f64::min);
        let met = if self.is_within_target() { "met" } else { "MISSED" };
        writeln!(
            table,
            "  at most {TARGET} is the target of the p50: {met}; best round {best:.2}\n"
        )
        .expect("text");
        table + &self.drain_table()
    }

    fn drain_table(&self) -> String {
        let mut table = format!(
            "drain, {} at once, in requests/s{:>9}{:>11}{:>9}{:>15}\n",
            self.concurrency, "bare", "submitted", "drained", "drained / bare"
        );
        for (at, round) in self.drain_rounds.iter().enumerate() {
            let drain::Round { bare, submitted, drained } = round;
            let name = format!("  round {}", at + 1);
            let share = drained / bare;
            writeln!(table, "{name:<31}{bare:>11.0}{submitted:>11.0}{drained:>9.0}{share:>15.2}")
                .expect("text");
        }
        table
    }
}

fn row(table: &mut String, name: &str, ratio: &Points) {
    writeln!(table, "  {name:<33}{:>10.2}{:>10.2}", ratio.p50, ratio.p99).expect("text");
}
