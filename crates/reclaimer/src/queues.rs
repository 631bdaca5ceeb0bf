//! Which shards there are: those of the settings, and those that others have registered.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use holdfast_core::keys::ShardKeys;
use holdfast_core::model::QueueName;
use holdfast_core::operate::Queue;
use holdfast_core::script::registered_queues;
use holdfast_core::{Redis, StoreError};
use tokio::time::Instant;

use crate::Config;

/// How often the registry is read.
const EVERY: Duration = Duration::from_secs(60);

/// The shards to look after, as far as they are known.
pub(crate) struct Queues {
    only: Option<Vec<QueueName>>,
    declared: BTreeMap<QueueName, NonZeroU32>,
    shards: Vec<ShardKeys>,
    read_at: Option<Instant>,
}

impl Queues {
    pub(crate) fn new(config: &Config) -> Self {
        let declared = config
            .declared
            .iter()
            .map(|(name, queue)| (name.clone(), queue.policy().shards))
            .collect();
        let mut queues =
            Self { only: config.queues.clone(), declared, shards: Vec::new(), read_at: None };
        // A missing row is not "no queue" to a role that has it in its settings.
        queues.shards = queues.wanted(BTreeMap::new());
        queues
    }

    /// The shards, with the registry read anew once a minute.
    pub(crate) async fn shards(&mut self, redis: &Redis) -> Result<&[ShardKeys], StoreError> {
        if self.read_at.is_none_or(|read_at| read_at.elapsed() >= EVERY) {
            let registered = registered_queues(redis).await?;
            self.shards = self.wanted(registered);
            self.read_at = Some(Instant::now());
        }
        Ok(&self.shards)
    }

    /// The queues of more than one shard.
    pub(crate) fn split(&self) -> Vec<Queue> {
        let mut shards: BTreeMap<QueueName, u32> = BTreeMap::new();
        for shard in &self.shards {
            *shards.entry(shard.queue.clone()).or_default() += 1;
        }
        let several = shards.into_iter().filter(|(_, shards)| *shards > 1);
        several
            .filter_map(|(name, it)| Some(Queue { name, shards: NonZeroU32::new(it)? }))
            .collect()
    }

    /// What is known without asking.
    pub(crate) fn known(&self) -> &[ShardKeys] {
        &self.shards
    }

    fn wanted(&self, mut all: BTreeMap<QueueName, NonZeroU32>) -> Vec<ShardKeys> {
        for (name, shards) in &self.declared {
            all.entry(name.clone()).or_insert(*shards);
        }
        all.into_iter()
            .filter(|(name, _)| self.only.as_ref().is_none_or(|only| only.contains(name)))
            .flat_map(|(name, shards)| ShardKeys::all(&name, shards.get()))
            .collect()
    }
}
