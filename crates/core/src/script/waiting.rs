//! Whether a claim would find anything, asked beside the scripts: it costs a tenth of a claim that finds nothing.

use fred::types::Value;

use crate::{Redis, StoreError, keys::ShardKeys, redis::slot_of};

/// Asks whether anything waits.
pub struct Waiting<'a> {
    /// In which shard.
    pub shard: &'a ShardKeys,
}

impl Waiting<'_> {
    /// Whether there is anything to claim, or that will be due.
    pub async fn run(&self, redis: &Redis) -> Result<bool, StoreError> {
        const CALL: &str = "waiting";
        let shard = self.shard;
        let keys = [&shard.pending, &shard.suspects, &shard.delayed];
        let words = keys.into_iter().map(|key| key.as_str().into()).collect();
        let answer = redis.call("EXISTS", Some(slot_of(&shard.pending)), words).await;
        match answer.map_err(|err| err.named(CALL))? {
            Value::Integer(there) => Ok(there > 0),
            _ => Err(StoreError::Reply { call: CALL }),
        }
    }
}
