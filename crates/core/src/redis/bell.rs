//! Waiting for the doorbell, on a connection of its own: a blocking command holds up everything behind it.

use std::time::Duration;

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value},
};
use tokio::time::timeout;

use super::{CustomRaw, OpenError, Redis, slot_of};
use crate::{StoreError, keys::ShardKeys};

/// How much longer than asked the client waits before it takes the connection for dead.
const GRACE: Duration = Duration::from_secs(5);

/// One waiter: one BLPOP at a time over shards of one slot, or of one node without Cluster.
pub struct Bell {
    client: Client,
}

impl Bell {
    /// A waiter beside `redis`.
    pub fn open(redis: &Redis) -> Result<Self, OpenError> {
        let client = redis.options.blocking_client()?;
        drop(client.connect());
        Ok(Self { client })
    }

    /// Takes a token of one of `shards`: the place of the shard that rang, or none after `limit`.
    ///
    /// Not to be dropped half-way: the command would go on, and its token be lost. On Cluster all `shards` must lie in one
    /// slot.
    pub async fn wait(
        &self,
        shards: &[ShardKeys],
        limit: Duration,
    ) -> Result<Option<usize>, StoreError> {
        const CALL: &str = "bell";
        let Some(first) = shards.first() else { return Ok(None) };
        let hash = ClusterHash::Custom(slot_of(&first.bell));
        let mut words: Vec<Value> = shards.iter().map(|shard| shard.bell.as_str().into()).collect();
        words.push(format!("{:.3}", limit.as_secs_f64()).into());
        let call =
            self.client.custom_raw_value(CustomCommand::new_static("BLPOP", hash, true), words);
        let answer = match timeout(limit + GRACE, call).await {
            Ok(answer) => answer.map_err(|err| StoreError::new(CALL, err))?,
            Err(_) => {
                // Nobody answers on this connection any more.
                let err = fred::error::Error::new(
                    fred::error::ErrorKind::Timeout,
                    "the bell's connection is silent",
                );
                let reconnecting = self.client.force_reconnection().await;
                return Err(StoreError::new(CALL, reconnecting.err().unwrap_or(err)));
            }
        };
        let Value::Array(parts) = answer else { return Ok(None) };
        let key = parts.first().and_then(Value::as_bytes);
        Ok(shards.iter().position(|shard| Some(shard.bell.as_bytes()) == key))
    }
}
