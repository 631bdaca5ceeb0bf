//! Reading what was submitted, beside the scripts: no body passes through one on the way to a worker.

use bytes::Bytes;
use fred::types::Value;

use crate::{Redis, StoreError, keys::ShardKeys, model::Key, redis::slot_of};

/// Reads values of `request`.
pub struct Requests<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// Whose.
    pub keys: &'a [Key],
}

impl Requests<'_> {
    /// One value a key, in their order; none where there is none.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<Option<Bytes>>, StoreError> {
        const CALL: &str = "requests";
        if self.keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut words: Vec<Value> = vec![self.shard.request.as_str().into()];
        words.extend(self.keys.iter().map(|key| Value::Bytes(key.bytes())));
        let answer = redis.call("HMGET", Some(slot_of(&self.shard.request)), words).await;
        let Value::Array(values) = answer.map_err(|err| err.named(CALL))? else {
            return Err(StoreError::Reply { call: CALL });
        };
        let read = |value| match value {
            Value::Null => Some(None),
            Value::Bytes(bytes) => Some(Some(bytes)),
            Value::String(text) => Some(Some(text.into_inner())),
            _ => None,
        };
        let found: Option<Vec<_>> = values.into_iter().map(read).collect();
        match found {
            Some(found) if found.len() == self.keys.len() => Ok(found),
            _ => Err(StoreError::Reply { call: CALL }),
        }
    }
}
