//! Few and many: of requests that wait, of workers on one queue, of shards.
//!
//! Each is measured beside its smallest, by turns on servers that run at the same time.

mod backlog;
mod bell;
mod shards;
mod workers;

use crate::Effort;
use crate::machine::{self, Machine};
use crate::report::Report;
use crate::server;

/// The bodies, in bytes.
const SIZE: usize = 1 << 10;

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let before = machine::load();
    let server = server::start(|_| {}).await;
    let machine = Machine::look(&server).await;
    drop(server);
    let mut rows = Vec::new();
    rows.extend(workers::rows(effort).await);
    rows.extend(bell::rows(effort).await);
    rows.extend(shards::rows(effort).await);
    rows.extend(backlog::rows(effort).await);
    Report::new("growth", machine, [before, machine::load()], rows)
}
