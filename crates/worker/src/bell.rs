//! Waits for the doorbells of several shards while there is a slot for what they announce: with one
//! shard its next claim waits there, see `claimer`. A hint: the safety poll carries the guarantee.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::keys::ShardKeys;
use holdfast_core::redis::{Bell, OpenError};
use holdfast_core::script::Ring;
use holdfast_core::{Chain, Redis};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::debug;

use crate::backoff::Pauses;
use crate::pause::before_repeat;
use crate::queue::Shard;

/// How long one wait lasts, while every shard is waited for.
const LONG: Duration = Duration::from_secs(30);
/// How long, while some shards are left out: they would not be heard once they are to be.
const SHORT: Duration = Duration::from_secs(1);

/// Which shards are to be listened to.
pub(crate) type Room = Arc<[bool]>;

/// A shard rang.
pub(crate) struct Rang {
    /// Which.
    pub(crate) shard: usize,
    /// Dropped once its token has been used: until then, what is known of the room is outdated.
    _heard: oneshot::Sender<()>,
}

/// One waiter, on a connection of its own, over shards that one command can reach.
pub(crate) struct Waiter {
    bell: Bell,
    /// Its shards, as places among all shards of this worker.
    at: Vec<usize>,
    keys: Vec<ShardKeys>,
}

impl Waiter {
    /// As many waiters as it takes: one for all shards, or on Cluster one for each.
    pub(crate) fn open(redis: &Redis, shards: &[Shard]) -> Result<Vec<Self>, OpenError> {
        let all: Vec<usize> = (0..shards.len()).collect();
        let size = if redis.is_clustered() { 1 } else { all.len().max(1) };
        let waiter = |at: &[usize]| {
            let keys = at.iter().map(|at| shards[*at].keys.clone()).collect();
            Ok(Self { bell: Bell::open(redis)?, at: at.to_vec(), keys })
        };
        all.chunks(size).map(waiter).collect()
    }

    /// Tells which shards rang, for as long as anybody listens.
    ///
    /// Dropped while it waits, it may lose a token that is on its way; only a process that ends
    /// does so, and the token's request is then found by somebody's safety poll.
    pub(crate) async fn run(self, mut room: watch::Receiver<Room>, rang: mpsc::Sender<Rang>) {
        let mut pauses = Pauses::default();
        loop {
            let open = |room: &Room| self.at.iter().any(|at| room[*at]);
            let Ok(room) = room.wait_for(open).await.map(|room| Arc::clone(&room)) else { return };
            let open: Vec<usize> = (0..self.at.len()).filter(|at| room[self.at[*at]]).collect();
            let keys: Vec<ShardKeys> = open.iter().map(|at| self.keys[*at].clone()).collect();
            let limit = if open.len() == self.at.len() { LONG } else { SHORT };
            match self.bell.wait(&keys, limit).await {
                Ok(None) => pauses = Pauses::default(),
                Ok(Some(token)) => {
                    pauses = Pauses::default();
                    let (heard, used) = oneshot::channel();
                    let token = Rang { shard: self.at[open[token]], _heard: heard };
                    if rang.send(token).await.is_err() {
                        return;
                    }
                    // Never sent, only dropped.
                    let _ = used.await;
                }
                Err(err) => {
                    debug!(error = %Chain(&err), "the bell can't be heard");
                    before_repeat(&mut pauses).await;
                }
            }
        }
    }
}

/// Puts a token back that was taken without a slot for it. If that fails, the safety poll of
/// whoever has one finds what it announced.
pub(crate) async fn put_back(redis: Redis, shard: ShardKeys) {
    if let Err(err) = (Ring { shard: &shard }).run(&redis).await {
        debug!(error = %Chain(&err), "a token is lost");
    }
}
