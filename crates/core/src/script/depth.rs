//! `depth`: how much is where, for eyes and gauges.

use super::{Script, u64_at};
use crate::{Redis, StoreError, keys::ShardKeys};

pub(super) static DEPTH: Script<8, 0> = Script::new("depth", include_str!("../../lua/depth.lua"));

/// Counts one shard.
pub struct Depth<'a> {
    /// The shard.
    pub shard: &'a ShardKeys,
}

/// How much is where. Times are ms of the Redis clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthReply {
    /// Claimable.
    pub pending: u64,
    /// Claimable, apart.
    pub suspects: u64,
    /// Waiting for their time.
    pub delayed: u64,
    /// With workers.
    pub leased: u64,
    /// Ended, kept for their readers.
    pub finished: u64,
    /// Ended, kept for an operator.
    pub dead: u64,
    /// Bytes of requests and records, as they were counted: 0 where somebody has spoiled the counter, or it fell below that.
    pub bytes: u64,
    /// Whether an operator stopped its claims.
    pub paused: bool,
    /// An operator's limit, over all shards.
    pub limit: Option<u64>,
    /// The server's time.
    pub now: u64,
    /// Deadline of the next to be claimed.
    pub head_deadline: Option<u64>,
    /// When the next to be claimed was submitted.
    pub head_submitted: Option<u64>,
    /// When the oldest of the 64 leases that end next was claimed.
    pub oldest_claimed: Option<u64>,
}

impl Depth<'_> {
    /// Runs the script.
    pub async fn run(&self, redis: &Redis) -> Result<DepthReply, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.pending,
            &shard.suspects,
            &shard.delayed,
            &shard.leased,
            &shard.finished,
            &shard.dead,
            &shard.ticket,
            &shard.meta,
        ]
        .map(String::as_str);
        DEPTH
            .run_once(redis, keys, [], |word, rest| {
                let count = |at| u64_at(rest, at);
                // 0 says that there is none. A score that somebody else wrote may be infinite, and comes as a number below
                // that: as a time there is none, either.
                let time = |at| count(at).filter(|time| *time > 0);
                (word == b"depth").then_some(())?;
                Some(DepthReply {
                    pending: count(0)?,
                    suspects: count(1)?,
                    delayed: count(2)?,
                    leased: count(3)?,
                    finished: count(4)?,
                    dead: count(5)?,
                    // One that is none holds nothing up; doctor tells of it.
                    bytes: count(6).unwrap_or(0),
                    paused: count(7)? == 1,
                    // -1 says that there is none.
                    limit: count(8),
                    now: count(9)?,
                    head_deadline: time(10),
                    head_submitted: time(11),
                    oldest_claimed: time(12),
                })
            })
            .await
    }
}
