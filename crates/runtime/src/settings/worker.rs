//! `[worker]`: leases, slots, and the drain.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_core::model::QueueName;

use super::name::{Names, WorkerName};
use super::section::{Section, Shown};

/// How long a process has from SIGTERM until it is killed: what Kubernetes grants by default.
pub const GRACE: Duration = Duration::from_secs(30);

/// What of it is kept free after the drain, for handing back and for going.
pub const GRACE_RESERVE: Duration = Duration::from_secs(2);

/// `[worker]`, checked.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Where health and metrics are.
    pub ops_listen: SocketAddr,
    /// How many requests of a queue it works on at once, where that does not say otherwise.
    pub concurrency: usize,
    /// How long a lease lasts without a renewal.
    pub lease: Duration,
    /// How often leases are renewed.
    pub renew: Duration,
    /// How long running calls may go on after SIGTERM.
    pub drain: Duration,
    /// The queues it serves; none: all that are declared.
    pub queues: Option<Vec<QueueName>>,
    /// What it calls itself, for eyes only.
    pub name: Option<String>,
}

/// Requests of one queue that a worker may work on at once: over HTTP/2 they need no connection each.
pub(super) const MOST_SLOTS: u64 = 100_000;

const LEASES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3_600);
const RENEWALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(1_800);

pub(super) fn read(mut section: Section<'_>) -> (Option<WorkerSettings>, Shown) {
    let ops_listen: Option<SocketAddr> = section.field("ops_listen", "127.0.0.1:9092");
    let concurrency = section.within("concurrency", "64", 1..=MOST_SLOTS);
    let lease = section.within("lease", "15s", LEASES);
    let third = lease.map(|lease| lease / 3);
    let renew = section.derived("renew", "a third of `lease`", third, RENEWALS);
    let longest = GRACE.saturating_sub(GRACE_RESERVE);
    let drain = section.field("drain", "25s");
    let queues: Option<Option<Names>> = section.optional("queues");
    let name: Option<Option<WorkerName>> = section.optional("name");

    if let (Some(lease), Some(renew)) = (lease, renew) {
        // One lost renewal must not cost the lease.
        section.check(renew <= lease / 2, "renew", "must be at most half of worker.lease");
    }
    if let Some(drain) = drain {
        section.check(drain <= longest, "drain", DRAIN);
    }
    let shown = section.finish();
    let checked = || {
        Some(WorkerSettings {
            ops_listen: ops_listen?,
            concurrency: usize::try_from(concurrency?).ok()?,
            lease: lease?,
            renew: renew?,
            drain: drain?,
            queues: queues?.map(|Names(names)| names),
            name: name?.map(|WorkerName(name)| name),
        })
    };
    (checked(), shown)
}

const DRAIN: &str = "must be at most 28s: a process has 30s to end, and what is left over is handed back in the rest";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_for_the_drain_tells_the_constants() {
        assert_eq!(GRACE - GRACE_RESERVE, Duration::from_secs(28));
        assert_eq!(GRACE, Duration::from_secs(30));
    }
}
