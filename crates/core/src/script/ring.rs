//! `ring`: put back a token that was taken without a free slot.

use super::Script;
use crate::{Redis, StoreError, keys::ShardKeys};

pub(super) static RING: Script<1, 0> = Script::new("ring", include_str!("../../lua/ring.lua"));

/// Rings the bell of one shard.
pub struct Ring<'a> {
    /// The shard.
    pub shard: &'a ShardKeys,
}

impl Ring<'_> {
    /// Runs the script.
    pub async fn run(&self, redis: &Redis) -> Result<(), StoreError> {
        RING.run_once(redis, [&self.shard.bell], [], |word, _| (word == b"rung").then_some(()))
            .await
    }
}
