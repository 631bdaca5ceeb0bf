//! The table that a person reads.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::checker::Verdict;
use crate::faults::{Fault, Kind};

/// What one leg came to.
pub(crate) struct Leg {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    pub(crate) faults: Vec<Fault>,
    pub(crate) verdict: Verdict,
}

/// How many requests a run of ten minutes must have accepted to count.
const ACCEPTED: f64 = 20_000.0;
/// How many faults.
const FAULTS: f64 = 200.0;
/// How often each kind.
const EACH: f64 = 5.0;
const TEN_MINUTES: f64 = 600.0;

/// All legs of a run.
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) legs: Vec<Leg>,
}

impl Run {
    /// How often a kind happened, how much it hit, and in how many of its faults it hit anything.
    fn counted(&self) -> BTreeMap<Kind, (u64, u64, u64)> {
        let mut counted: BTreeMap<Kind, (u64, u64, u64)> =
            Kind::all().map(|kind| (kind, (0, 0, 0))).collect();
        for fault in self.legs.iter().flat_map(|leg| &leg.faults) {
            let entry = counted.entry(fault.kind).or_default();
            *entry = (entry.0 + 1, entry.1 + fault.hit, entry.2 + u64::from(fault.hit > 0));
        }
        counted
    }

    /// Why the run does not count, or failed.
    pub(crate) fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for leg in &self.legs {
            failures.extend(leg.verdict.violations.iter().map(|it| format!("{}: {it}", leg.name)));
        }
        let share = self.length.as_secs_f64() / TEN_MINUTES;
        let accepted: u64 = self.legs.iter().map(|leg| leg.verdict.accepted).sum();
        let faults: usize = self.legs.iter().map(|leg| leg.faults.len()).sum();
        if (accepted as f64) < ACCEPTED * share {
            failures.push(format!("only {accepted} were accepted: too few to count"));
        }
        if (faults as f64) < FAULTS * share {
            failures.push(format!("only {faults} faults"));
        }
        let least = (EACH * share).ceil() as u64;
        // Below a minute not every kind comes up.
        let counted = self.counted().into_iter().filter(|_| self.length >= Duration::from_secs(60));
        for (kind, (_, _, hit)) in counted {
            if hit < least {
                failures.push(format!("{} hit something {hit} times, not {least}", kind.name()));
            }
        }
        failures
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut lines =
            vec![format!("seed {}, {} s", self.seed, self.length.as_secs()), String::new()];
        lines.push(format!("{:<44}{:>8}{:>10}  {}", "fault", "times", "hit", "what is counted"));
        for (kind, (times, hit, _)) in self.counted() {
            lines.push(format!("{:<44}{times:>8}{hit:>10}  {}", kind.name(), kind.hits()));
        }
        lines.push(String::new());
        let mut head = format!("{:<44}", "");
        self.legs.iter().for_each(|leg| head += &format!("{:>14}", leg.name));
        lines.push(head);
        for (name, figures) in self.figures() {
            let mut line = format!("{name:<44}");
            figures.iter().for_each(|figure| line += &format!("{figure:>14}"));
            lines.push(line);
        }
        lines.push(String::new());
        let failures = self.failures();
        match failures.len() {
            0 => lines.push("clean".to_owned()),
            count => {
                lines.push(format!("FAILED: {count}"));
                lines.extend(failures.into_iter().take(40).map(|it| format!("  {it}")));
            }
        }
        lines.join("\n")
    }

    fn figures(&self) -> Vec<(String, Vec<u64>)> {
        let of = |figure: &dyn Fn(&Leg) -> u64| self.legs.iter().map(figure).collect();
        let mut rows: Vec<(String, Vec<u64>)> = vec![
            ("seconds, faults over and all ended".to_owned(), of(&|it| it.took.as_secs())),
            ("faults".to_owned(), of(&|it| it.faults.len() as u64)),
            ("accepted".to_owned(), of(&|it| it.verdict.accepted)),
            ("refused to the end, or unknown".to_owned(), of(&|it| it.verdict.refused)),
        ];
        let mut outcomes: Vec<&String> =
            self.legs.iter().flat_map(|leg| leg.verdict.ends.keys()).collect();
        outcomes.sort();
        outcomes.dedup();
        for outcome in outcomes {
            let figures = of(&|it| it.verdict.ends.get(outcome).copied().unwrap_or(0));
            rows.push((format!("  ended: {outcome}"), figures));
        }
        rows.extend([
            ("arrivals at the gateway".to_owned(), of(&|it| it.verdict.arrivals)),
            ("  beyond the first of their id".to_owned(), of(&|it| it.verdict.repeated)),
            ("forgotten by redis: requests".to_owned(), of(&|it| it.verdict.forgotten)),
            (
                "  sent before a restart and told after it".to_owned(),
                of(&|it| it.verdict.told_late),
            ),
            ("forgotten by redis: ends".to_owned(), of(&|it| it.verdict.ends_forgotten)),
            ("  that came out otherwise".to_owned(), of(&|it| it.verdict.ended_otherwise)),
            ("lost".to_owned(), of(&|it| it.verdict.lost)),
            ("second records".to_owned(), of(&|it| it.verdict.second_records)),
        ]);
        rows
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let faults: Vec<Value> = self
            .counted()
            .into_iter()
            .map(|(kind, (times, hit, _))| {
                json!({"fault": kind.name(), "times": times, "hit": hit, "counted": kind.hits()})
            })
            .collect();
        let figures: BTreeMap<String, Vec<u64>> =
            self.figures().into_iter().map(|(name, row)| (name.trim().to_owned(), row)).collect();
        let legs: Vec<&str> = self.legs.iter().map(|leg| leg.name).collect();
        json!({"seed": self.seed, "seconds": self.length.as_secs(), "legs": legs, "faults": faults,
               "figures": figures, "failures": self.failures()})
    }
}
