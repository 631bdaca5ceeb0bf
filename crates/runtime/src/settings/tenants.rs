//! `[tenants.<name>]`: what one tenant may occupy.

use std::collections::BTreeMap;

use holdfast_core::model::{QueueName, TenantName};

use super::queues::QueueSettings;
use super::section::{Section, Shown};
use super::source::Source;
use super::value::Size;

/// `[tenants.<name>]`, checked. Each holds in each queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSettings {
    /// How many requests it may have that have not ended.
    pub queued: Option<u64>,
    /// How many bytes of requests and records.
    pub bytes: Option<u64>,
    /// How many it may submit a second.
    pub submits_per_second: Option<u64>,
}

/// What is split over the shards of a queue must leave each of them something.
pub(super) fn check(
    source: &mut Source,
    tenants: &BTreeMap<TenantName, TenantSettings>,
    queues: &BTreeMap<QueueName, QueueSettings>,
) {
    for (tenant, limits) in tenants {
        let path = format!("tenants.{tenant}");
        for (queue, settings) in queues {
            let shards = u64::from(settings.shards.get());
            let counts =
                [("queued", limits.queued), ("submits_per_second", limits.submits_per_second)];
            for (name, limit) in counts {
                let rule = format!("must be at least the number of shards of queues.{queue}");
                source.check(limit.is_none_or(|limit| limit >= shards), &path, name, &rule);
            }
            let fits = limits.bytes.is_none_or(|bytes| bytes / shards >= settings.body_limit);
            let rule = format!("must hold one body of body_limit in each shard of queues.{queue}");
            source.check(fits, &path, "bytes", &rule);
        }
    }
}

pub(super) fn read(mut section: Section<'_>) -> (Option<TenantSettings>, Shown) {
    let queued = section.optional_within("queued", 1..=u64::from(u32::MAX));
    let bytes = section.optional_within("bytes", Size(1)..=Size(1 << 50));
    let rate = section.optional_within("submits_per_second", 1..=100_000);
    let shown = section.finish();
    let checked = || {
        Some(TenantSettings {
            queued: queued?,
            bytes: bytes?.map(|Size(bytes)| bytes),
            submits_per_second: rate?,
        })
    };
    (checked(), shown)
}
