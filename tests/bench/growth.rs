//! Few and many: of requests that wait, of workers on one queue, of shards.
//!
//! Each is measured beside its smallest, by turns on servers that run at the same time.

mod backlog;
mod bell;
mod shards;
mod workers;

use crate::Effort;
use crate::machine::{self, Machine};
use crate::protocol::cycle::{Costs, ratios};
use crate::report::{Report, Row, median};

/// The bodies, in bytes.
const SIZE: usize = 1 << 10;

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let before = machine::load();
    let machine = Machine::here().await;
    let mut rows = Vec::new();
    rows.extend(workers::rows(effort).await);
    rows.extend(bell::rows(effort).await);
    rows.extend(shards::rows(effort).await);
    rows.extend(backlog::rows(effort).await);
    Report::new("growth", machine, [before, machine::load()], rows)
}

/// The rate of many beside that of one, and what a request of each costs the server.
fn compared(what: &str, many: &Costs, one: &Costs) -> [Row; 2] {
    let per_second = |costs: &Costs| 1e6 / median(&costs.time);
    let (rates, cpu) = (ratios(&one.time, &many.time), ratios(&many.cpu, &one.cpu));
    [
        Row::new(format!("{what}: rate"), "x", median(&rates))
            .note(format!("{:.0} and {:.0} a second", per_second(many), per_second(one)))
            .samples("us a request", many.time.clone())
            .samples("us a request, one", one.time.clone()),
        Row::new(format!("{what}: server CPU"), "x", median(&cpu))
            .note(format!("{:.1} and {:.1} us a request", median(&many.cpu), median(&one.cpu)))
            .samples("us a request", many.cpu.clone())
            .samples("us a request, one", one.cpu.clone()),
    ]
}
