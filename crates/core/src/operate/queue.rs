//! A queue as operators address it: by its name, over all its shards.

use std::num::NonZeroU32;

use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Identity, Key, QueueName},
    script::registered_queues,
};

/// A queue and the number of its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// How many shards it has.
    pub shards: NonZeroU32,
}

/// The queues of the registry.
pub async fn queues(redis: &Redis) -> Result<Vec<Queue>, StoreError> {
    let rows = registered_queues(redis).await?;
    Ok(rows.into_iter().map(|(name, shards)| Queue { name, shards }).collect())
}

impl Queue {
    /// The queue of that name, if the registry has it.
    pub async fn find(redis: &Redis, name: &QueueName) -> Result<Option<Self>, StoreError> {
        Ok(queues(redis).await?.into_iter().find(|queue| queue.name == *name))
    }

    /// The keys of its shards, in their order.
    pub fn keys(&self) -> Vec<ShardKeys> {
        ShardKeys::all(&self.name, self.shards.get())
    }

    /// The shard of a request, and its key there.
    pub fn place(&self, identity: &Identity) -> (ShardKeys, Key) {
        let place = identity.place(self.shards);
        (ShardKeys::new(&self.name, place.shard), place.key)
    }
}
