//! How long a record is, asked beside the scripts: one that reads a large record holds up the server for as long as copying
//! it takes, and this does not.

use fred::types::Value;

use crate::{Redis, StoreError, keys::ShardKeys, model::Key, redis::slot_of};

/// Asks for the length of a record.
pub struct Length<'a> {
    /// The shard it lies in.
    pub shard: &'a ShardKeys,
    /// Whose.
    pub key: Key,
}

impl Length<'_> {
    /// Its length in bytes; 0: there is none.
    pub async fn run(&self, redis: &Redis) -> Result<usize, StoreError> {
        const CALL: &str = "length";
        let result = self.shard.result.as_str();
        let words = vec![result.into(), Value::Bytes(self.key.bytes())];
        let answer = redis.call("HSTRLEN", Some(slot_of(result)), words).await;
        match answer.map_err(|err| err.named(CALL))? {
            Value::Integer(length) => {
                usize::try_from(length).map_err(|_| StoreError::Reply { call: CALL })
            }
            _ => Err(StoreError::Reply { call: CALL }),
        }
    }
}
