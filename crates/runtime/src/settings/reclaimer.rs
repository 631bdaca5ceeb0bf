//! `[reclaimer]`: recovery and upkeep.

use std::net::SocketAddr;
use std::time::Duration;

use holdfast_core::model::QueueName;

use super::name::Names;
use super::section::{Section, Shown};

/// `[reclaimer]`, checked.
#[derive(Clone, Debug)]
pub struct ReclaimerSettings {
    /// Where health and metrics are.
    pub ops_listen: SocketAddr,
    /// How often it looks at every shard.
    pub every: Duration,
    /// The queues it looks after; none: all that are registered.
    pub queues: Option<Vec<QueueName>>,
}

const PASSES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(600);

pub(super) fn read(mut section: Section<'_>) -> (Option<ReclaimerSettings>, Shown) {
    let ops_listen: Option<SocketAddr> = section.field("ops_listen", "127.0.0.1:9093");
    let every = section.within("every", "1s", PASSES);
    let queues: Option<Option<Names>> = section.optional("queues");
    let shown = section.finish();
    let checked = || {
        Some(ReclaimerSettings {
            ops_listen: ops_listen?,
            every: every?,
            queues: queues?.map(|Names(names)| names),
        })
    };
    (checked(), shown)
}
