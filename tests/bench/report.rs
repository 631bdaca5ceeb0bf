//! What a part of the bench tells: rows with their targets, and every sample.
//!
//! A claim is a ratio of two things that were measured by turns in one run, or a count: both survive a busy machine. What could
//! not be measured stands there as such. What misses its target tells below it what else was measured in the same run that shows
//! how far down it could go: its floors.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::Output;
use crate::machine::Machine;

/// What a figure must come to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// What was measured beside a row and can't be undercut, or only by giving up what it stands for.
#[derive(Debug, Serialize)]
struct Floor {
    /// In the unit of its row.
    figure: f64,
    /// What was measured, and why it is a floor.
    why: String,
}

/// One thing that was asked, and what was found.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// What was measured, and beside what.
    what: String,
    /// As `x`, `us` or `B`.
    unit: &'static str,
    /// None: it was not measured.
    figure: Option<f64>,
    /// None: a figure to know, not to reach.
    target: Option<Target>,
    /// What the figure comes from, or why there is none.
    note: String,
    /// What shows why a target is missed.
    floors: Vec<Floor>,
    /// Everything that was read, by its name, in the order in which it was.
    samples: BTreeMap<String, Vec<f64>>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, figure: f64) -> Self {
        Self {
            what: what.into(),
            unit,
            figure: Some(figure),
            target: None,
            note: String::new(),
            floors: Vec::new(),
            samples: BTreeMap::new(),
        }
    }

    /// A row whose other side is missing.
    pub(crate) fn not_measured(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { figure: None, note: why.into(), ..Self::new(what, "", 0.0) }
    }

    pub(crate) fn at_least(mut self, target: f64) -> Self {
        self.target = Some(Target::AtLeast(target));
        self
    }

    pub(crate) fn at_most(mut self, target: f64) -> Self {
        self.target = Some(Target::AtMost(target));
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Adds to what the figure comes from.
    pub(crate) fn more(mut self, note: &str) -> Self {
        self.note.push_str(note);
        self
    }

    /// Adds a floor: a figure in the unit of the row, and one sentence that says what it is.
    pub(crate) fn floor(mut self, figure: f64, why: impl Into<String>) -> Self {
        self.floors.push(Floor { figure, why: why.into() });
        self
    }

    pub(crate) fn samples(mut self, name: impl Into<String>, samples: Vec<f64>) -> Self {
        self.samples.insert(name.into(), samples);
        self
    }

    /// None: nothing was to be reached, or nothing was measured.
    fn is_met(&self) -> Option<bool> {
        let figure = self.figure?;
        self.target.map(|target| match target {
            Target::AtLeast(target) => figure >= target,
            Target::AtMost(target) => figure <= target,
        })
    }

    fn told(&self) -> String {
        let figure = match self.figure {
            Some(figure) => format!("{} {}", digits(figure), self.unit),
            None => "not measured".to_owned(),
        };
        let target = match self.target {
            Some(Target::AtLeast(target)) => format!(">= {}", digits(target)),
            Some(Target::AtMost(target)) => format!("<= {}", digits(target)),
            None => String::new(),
        };
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let mut told =
            format!("  {:<66}{figure:>15}{target:>11}  {verdict:<7} {}", self.what, self.note);
        told.truncate(told.trim_end().len());
        if self.is_met() == Some(false) {
            for Floor { figure, why } in &self.floors {
                write!(told, "\n      floor {} {}: {why}", digits(*figure), self.unit)
                    .expect("text");
            }
        }
        told
    }
}

/// Three digits that count.
fn digits(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        size if size >= 0.01 => format!("{figure:.2}"),
        _ => format!("{figure:.4}"),
    }
}

/// One part: where it ran, and its rows.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    part: &'static str,
    machine: Machine,
    /// Before and after.
    load: [f64; 2],
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(
        part: &'static str,
        machine: Machine,
        load: [f64; 2],
        rows: Vec<Row>,
    ) -> Self {
        Self { part, machine, load, rows }
    }

    /// Whether no row missed its target.
    pub(crate) fn is_met(&self) -> bool {
        self.rows.iter().all(|row| row.is_met() != Some(false))
    }

    pub(crate) fn told(&self, output: Output) -> String {
        match output {
            Output::Json => serde_json::to_string(self).expect("figures are JSON"),
            Output::Text => self.table(),
        }
    }

    fn table(&self) -> String {
        let [before, after] = self.load;
        let mut table = format!(
            "{}\n{}\nload {before:.2} before, {after:.2} after\n",
            self.part,
            self.machine.told()
        );
        for row in &self.rows {
            writeln!(table, "{}", row.told()).expect("text");
        }
        table
    }
}

/// The middle one of some figures: of an even number, the higher of both.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    *sorted.get(sorted.len() / 2).expect("a figure")
}
