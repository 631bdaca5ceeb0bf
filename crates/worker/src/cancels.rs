//! Hears what callers want stopped. A hint: a renewal says the same, and is asked for at once where
//! something may have been missed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use holdfast_core::Redis;
use holdfast_core::model::{Fence, Handle};
use holdfast_core::redis::{Message, OpenError, Subscriber};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::held::Held;
use crate::queue::Shard;

/// A message is a row of these: a fence and a handle, 32 bytes each.
const PAIR: usize = 64;

/// Listens to the cancel channels of all shards.
pub(crate) struct Cancels {
    subscriber: Subscriber,
    shard_of: HashMap<String, usize>,
    held: Arc<Held>,
}

impl Cancels {
    /// A listener on a connection of its own.
    pub(crate) fn open(
        redis: &Redis,
        shards: &[Shard],
        held: Arc<Held>,
    ) -> Result<Self, OpenError> {
        let channels: Vec<String> = shards.iter().map(|shard| shard.keys.cancel.clone()).collect();
        let shard_of = channels.iter().cloned().zip(0..).collect();
        Ok(Self { subscriber: Subscriber::open(redis, channels)?, shard_of, held })
    }

    /// Passes on what it hears, until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        loop {
            let message = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                message = self.subscriber.next() => message,
            };
            let Message::Heard { channel, bytes } = message else {
                // Subscribed, to all channels: what was missed before is told by a renewal.
                self.held.doubt();
                continue;
            };
            let Some(shard) = self.shard_of.get(&channel) else { continue };
            for owner in owners(&bytes) {
                self.held.cancel(*shard, &owner);
            }
        }
    }
}

/// The leases that a message names. What does not fit is left out.
pub(crate) fn owners(message: &[u8]) -> impl Iterator<Item = (Fence, Handle)> {
    let (pairs, rest) = message.as_chunks::<PAIR>();
    if !rest.is_empty() {
        debug!(length = message.len(), "a cancel message of another form");
    }
    pairs.iter().filter_map(|pair| {
        let (fence, handle) = pair.split_at(PAIR / 2);
        Some((Fence::try_from(fence).ok()?, Handle::try_from(handle).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_leases_one_after_another() {
        let pair = |byte| (Fence::from([byte; 32]), Handle::from([byte + 1; 32]));
        let message = [[1; 32], [2; 32], [3; 32], [4; 32]].concat();
        assert_eq!(owners(&message).collect::<Vec<_>>(), [pair(1), pair(3)]);
        assert_eq!(owners(&message[..100]).collect::<Vec<_>>(), [pair(1)]);
        assert_eq!(owners(b"").count(), 0);
    }
}
