//! Reads what was submitted and did not come along with the claims that lease it: what is small for a
//! claim as a whole, what is large by its own attempt, so that nothing else waits for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::model::Key;
use holdfast_core::script::{Lease, Requests};
use holdfast_core::{Chain, Redis, StoreError};
use holdfast_runtime::Seldom;
use tokio::sync::Semaphore;
use tracing::warn;

use crate::backoff::Pauses;
use crate::pause::before_repeat;
use crate::queue::Shard;
use crate::store::{Store, is_large};

/// What was submitted, as far as it has been read.
pub(crate) enum Submitted {
    /// Read; none: it is gone.
    Read(Option<Bytes>),
    /// Too large to be read with others.
    Large(Large),
}

/// A large request that is still to be read.
pub(crate) struct Large {
    bodies: Arc<Bodies>,
    shard: usize,
    key: Key,
}

/// The way to what was submitted.
pub(crate) struct Bodies {
    store: Store,
    shards: Arc<[Shard]>,
    /// One large read a shard at a time. They share a connection: together each would take as long
    /// as all of them, and so longer than a call may.
    turns: Vec<Semaphore>,
    warnings: Seldom,
}

impl Bodies {
    /// Nothing read yet.
    pub(crate) fn new(store: Store, shards: Arc<[Shard]>) -> Arc<Self> {
        let turns = shards.iter().map(|_| Semaphore::new(1)).collect();
        Arc::new(Self { store, shards, turns, warnings: Seldom::new(Duration::from_secs(10)) })
    }

    /// What belongs to the leases of one claim, in their order. What is small and did not come along is
    /// asked for until Redis answers. What has no readable ticket is not: nothing could be done with it.
    pub(crate) async fn of<'a>(
        self: &Arc<Self>,
        shard: usize,
        leases: impl Iterator<Item = &'a Lease>,
    ) -> Vec<Submitted> {
        let (mut keys, mut places) = (Vec::new(), Vec::new());
        let mut all: Vec<Submitted> = Vec::new();
        for (at, lease) in leases.enumerate() {
            let key = lease.handle.key();
            all.push(match &lease.ticket {
                _ if lease.request.is_some() => Submitted::Read(lease.request.clone()),
                Ok(ticket) if is_large(ticket.body_size as usize) => {
                    Submitted::Large(Large { bodies: Arc::clone(self), shard, key })
                }
                Ok(_) => {
                    keys.push(key);
                    places.push(at);
                    Submitted::Read(None)
                }
                Err(_) => Submitted::Read(None),
            });
        }
        let mut pauses = Pauses::default();
        let requests = loop {
            match self.ask(&self.store.usual, shard, &keys).await {
                Ok(requests) => break requests,
                Err(err) => self.warn(&err),
            }
            before_repeat(&mut pauses).await;
        };
        for (at, request) in places.into_iter().zip(requests) {
            all[at] = Submitted::Read(request);
        }
        all
    }

    async fn ask(
        &self,
        redis: &Redis,
        shard: usize,
        keys: &[Key],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        Requests { shard: &self.shards[shard].keys, keys }.run(redis).await
    }

    fn warn(&self, err: &StoreError) {
        if let Some(held_back) = self.warnings.now() {
            warn!(error = %Chain(err), held_back, "no answer to the read of a request yet");
        }
    }
}

impl Large {
    /// Asks for it until Redis answers; none: it is gone. May be dropped at any time.
    pub(crate) async fn read(&self) -> Option<Bytes> {
        let Self { bodies, shard, key } = self;
        let mut pauses = Pauses::default();
        loop {
            // Given back before a pause: others may fare better.
            let turn = bodies.turns[*shard].acquire().await;
            match bodies.ask(&bodies.store.large, *shard, &[*key]).await {
                Ok(requests) => return requests.into_iter().next().flatten(),
                Err(err) => bodies.warn(&err),
            }
            drop(turn);
            before_repeat(&mut pauses).await;
        }
    }
}
