//! The scripts beside raw Redis and beside other queues: rate, processor time of the server, bytes of its file.
//!
//! `cycle` says what is compared and measures it, `holdfast`, `raw` and `single` are sides, `whole`, `stages`, `claims`, `leases` and `fsync`
//! the comparisons, `floor` what lies under them. `peers` runs other queues as programs of their own: `bullmq` and `apalis`.

mod apalis;
mod bullmq;
mod claims;
pub(crate) mod cycle;
mod floor;
mod fsync;
pub(crate) mod holdfast;
mod leases;
mod peers;
mod raw;
mod single;
mod stages;
mod whole;

use crate::Effort;
use crate::machine::{self, Machine};
use crate::report::Report;

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let before = machine::load();
    let machine = Machine::here().await;
    let mut rows = Vec::new();
    rows.extend(whole::rows(effort).await);
    rows.extend(stages::rows(effort).await);
    rows.extend(claims::rows(effort).await);
    rows.extend(leases::rows(effort).await);
    rows.extend(fsync::rows(effort).await);
    rows.extend(bullmq::rows(effort).await);
    rows.extend(apalis::rows(effort).await);
    Report::new("protocol", machine, [before, machine::load()], rows)
}
