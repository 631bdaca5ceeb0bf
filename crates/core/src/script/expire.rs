//! `expire`: end what waited past its deadline.

use super::{Script, handle_at, number, outcome_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Handle, Outcome},
};

pub(super) static EXPIRE: Script<10, 1> =
    Script::new("expire", include_str!("../../lua/expire.lua"));

/// Ends requests of one shard whose deadline passed while they waited.
pub struct Expire<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// How many a set at most; 128 are the limit.
    pub limit: usize,
}

impl Expire<'_> {
    /// Runs the script: what ended, and how.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<(Handle, Outcome)>, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.pending,
            &shard.suspects,
            &shard.finished,
            &shard.dead,
            &shard.request,
            &shard.ticket,
            &shard.result,
            &shard.meta,
            &shard.lanes,
            &shard.ended,
        ]
        .map(String::as_str);
        let head = [number(self.limit.clamp(1, 128))];
        EXPIRE
            .run(redis, keys, head, Vec::new(), |word, rest| match word {
                b"ended" => Some((handle_at(rest, 0)?, outcome_at(rest, 1)?)),
                _ => None,
            })
            .await
    }
}
