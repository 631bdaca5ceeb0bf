//! The figures added up, as a table and as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::{drain, idle};
use crate::Output;
use crate::machine::Machine;
use crate::times::{Points, Times};

/// At most so many times the floor is what an idle system may take.
const TARGET: f64 = 3.0;

/// From so many ms of rest on a system counts as idle: fifty requests a second and fewer.
const IDLE: u64 = 20;

/// All that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    machine: Machine,
    /// Before and after.
    load: [f64; 2],
    concurrency: u16,
    target: f64,
    lone: Vec<Lone>,
    idle_rounds: Vec<idle::Round>,
    drain_rounds: Vec<drain::Round>,
}

/// A lone request after one rest, in a few figures.
#[derive(Debug, Serialize)]
struct Lone {
    /// In ms.
    rest: u64,
    bell: Points,
    http: Points,
    submit: Points,
    pickup: Points,
    /// The pickup as a multiple of bell and http together: over all samples, and of each round.
    ratio: Points,
    ratio_of_rounds: Vec<Points>,
}

impl Lone {
    fn of(rest: u64, rounds: &[idle::Round]) -> Self {
        let rounds: Vec<_> = rounds.iter().filter(|round| round.rest == rest).collect();
        let all = |times: fn(&idle::Round) -> &Times| {
            Times::joined(rounds.iter().map(|round| times(round))).points()
        };
        let (bell, http, pickup) = (all(|it| &it.bell), all(|it| &it.http), all(|it| &it.pickup));
        Self {
            rest,
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

    fn is_idle(&self) -> bool {
        self.rest >= IDLE
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
        let mut rests: Vec<_> = idle_rounds.iter().map(|round| round.rest).collect();
        rests.sort_unstable();
        rests.dedup();
        let lone = rests.into_iter().map(|rest| Lone::of(rest, &idle_rounds)).collect();
        Self { machine, load, concurrency, target: TARGET, lone, idle_rounds, drain_rounds }
    }

    /// Whether the median of all samples of an idle system is, at each rest; without such a rest nothing is shown.
    pub(super) fn is_within_target(&self) -> bool {
        let mut idle = self.lone.iter().filter(|lone| lone.is_idle()).peekable();
        idle.peek().is_some() && idle.all(|lone| lone.ratio.p50 <= self.target)
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
        for lone in &self.lone {
            lone.tell(&mut table);
        }
        let met = if self.is_within_target() { "met" } else { "MISSED" };
        writeln!(
            table,
            "at most {TARGET} is the target of the p50 of an idle system (a rest of {IDLE} ms or more): {met}\n"
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

impl Lone {
    fn tell(&self, table: &mut String) {
        let title = format!("a lone request, {} ms after another, in us", self.rest);
        writeln!(table, "{title:<43}{:>10}{:>10}", "p50", "p99").expect("text");
        for (name, points) in [
            ("BLPOP wake-up", &self.bell),
            ("one bare HTTP call", &self.http),
            ("submit to its 202", &self.submit),
            ("submit to arrival at the gateway", &self.pickup),
        ] {
            writeln!(table, "  {name:<41}{:>10.0}{:>10.0}", points.p50, points.p99).expect("text");
        }
        row(table, "arrival / (wake-up + call)", self.ratio);
        for (at, points) in self.ratio_of_rounds.iter().enumerate() {
            row(table, &format!("  round {}", at + 1), *points);
        }
        table.push('\n');
    }
}

fn row(table: &mut String, name: &str, ratio: Points) {
    writeln!(table, "  {name:<41}{:>10.2}{:>10.2}", ratio.p50, ratio.p99).expect("text");
}
