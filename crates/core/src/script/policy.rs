//! `policy`: write a queue's settings into its shard, where the scripts read them.

use std::{num::NonZeroU32, time::Duration};

use bytes::Bytes;

use super::{Script, flag, number, u64_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{SCHEMA, share},
};

pub(super) static POLICY: Script<2, 2, 2> =
    Script::new("policy", include_str!("../../lua/policy.lua"));

/// What the scripts must know of a queue's settings, over all its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Number of shards.
    pub shards: NonZeroU32,
    /// The lapse that ends a request.
    pub max_lapses: u32,
    /// How long a finished one is kept.
    pub retention: Duration,
    /// How long a dead one is kept.
    pub dead_retention: Duration,
    /// How many may live at once.
    pub capacity: u64,
    /// How many bytes requests and records may take.
    pub capacity_bytes: u64,
    /// How many may be leased at once, over all workers.
    pub in_flight: Option<u64>,
}

/// Writes or compares the policy of one shard.
pub struct Policy<'a> {
    /// The shard; its own number decides its share of each limit.
    pub shard: &'a ShardKeys,
    /// The policy of the whole queue.
    pub policy: &'a QueuePolicy,
    /// Whether to write what differs, or to look only.
    pub write: bool,
}

/// What the shard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyReply {
    /// The same, under this version.
    Same(u64),
    /// Now the same, under this new version.
    Written(u64),
    /// Something else, under this version.
    Differs(u64),
    /// It belongs to a newer schema.
    Newer(u64),
}

impl Policy<'_> {
    /// Runs the script.
    pub async fn run(&self, redis: &Redis) -> Result<PolicyReply, StoreError> {
        let (shard, policy) = (self.shard, self.policy);
        let part = |limit| number(share(limit, shard.shard, policy.shards));
        let row = |field: &'static str, value: Bytes| [Bytes::from_static(field.as_bytes()), value];
        let rows = vec![
            row("max_lapses", number(policy.max_lapses)),
            row("retention", number(policy.retention.as_millis())),
            row("dead_retention", number(policy.dead_retention.as_millis())),
            row("capacity", part(policy.capacity)),
            row("capacity_bytes", part(policy.capacity_bytes)),
            row("in_flight", policy.in_flight.map(part).unwrap_or_default()),
        ];
        let keys = [&shard.meta, &shard.bell].map(String::as_str);
        // One answer for all rows.
        let replies =
            POLICY.run_all(redis, keys, [number(SCHEMA), flag(self.write)], rows, |word, rest| {
                // What somebody has spoiled is no version: another one follows with the next change.
                let version = u64_at(rest, 0).unwrap_or(0);
                match word {
                    b"same" => Some(PolicyReply::Same(version)),
                    b"written" => Some(PolicyReply::Written(version)),
                    b"differs" => Some(PolicyReply::Differs(version)),
                    b"newer" => Some(PolicyReply::Newer(u64_at(rest, 0)?)),
                    _ => None,
                }
            });
        replies.await
    }
}
