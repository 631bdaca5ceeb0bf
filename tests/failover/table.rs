//! The table, and what must hold in it.

use std::fmt;

use crate::ledger::Row;
use crate::scene::{Fault, Level};

/// Rows in the order in which they were played; rounds of one kind are summed up.
#[derive(Default)]
pub(crate) struct Table(Vec<(Level, Fault, usize, Row)>);

impl Table {
    /// Adds a round.
    pub(crate) fn add(&mut self, level: Level, fault: Fault, row: Row) {
        let same = |it: &&mut (Level, Fault, usize, Row)| it.0.name == level.name && it.1 == fault;
        match self.0.iter_mut().find(same) {
            Some((_, _, rounds, sum)) => {
                *rounds += 1;
                sum.add(row);
            }
            None => self.0.push((level, fault, 1, row)),
        }
    }

    /// Whether what is promised holds: at `replicated` nothing is lost and nobody sees two records; at no level a request
    /// ends in another way, or is shown another one's answer.
    pub(crate) fn holds(&self) -> bool {
        self.0.iter().all(|(level, _, _, row)| {
            let is_kept = row.lost_whole == 0 && row.second == 0;
            let was_tried = row.accepted > 100;
            was_tried && row.failed == 0 && row.foreign == 0 && (is_kept || !level.is_replicated())
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = [
            "level",
            "the primary is",
            "rounds",
            "accepted",
            "as safe as asked",
            "lost",
            "of these as safe as asked",
            "repeated calls",
            "second records",
            "failed",
            "late settles refused",
            "longest silence, ms",
        ];
        writeln!(f, "| {} |", heads.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(heads.len()))?;
        for (level, fault, rounds, row) in &self.0 {
            let Row {
                accepted,
                whole,
                lost,
                lost_whole,
                failed,
                repeated,
                second,
                fenced,
                back,
                ..
            } = row;
            writeln!(
                f,
                "| {} | {} | {rounds} | {accepted} | {whole} | {lost} | {lost_whole} | {repeated} | {second} | {failed} | {fenced} | {back} |",
                level.name,
                fault.name(),
            )?;
        }
        Ok(())
    }
}

impl Row {
    fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.whole += other.whole;
        self.lost += other.lost;
        self.lost_whole += other.lost_whole;
        self.failed += other.failed;
        self.repeated += other.repeated;
        self.second += other.second;
        self.foreign += other.foreign;
        self.fenced += other.fenced;
        // The longest.
        self.back = self.back.max(other.back);
    }
}
