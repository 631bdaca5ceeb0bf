//! The work on one shard: each script again until a batch comes back short, or its pass has taken long enough.
//!
//! One batch is always done. What is left is there for the next pass: the leases of dead workers in all shards wait for this
//! one to end.

use holdfast_core::keys::ShardKeys;
use holdfast_core::script::{Charge, Expire, Promote, PromoteReply, Reclaim, ReclaimReply, Sweep};
use holdfast_core::{Redis, StoreError, metrics};
use tokio::time::Instant;

/// Items a call: 256 keep a script near 2 ms. What looks at two sets takes half from each.
const RECLAIMED: usize = 256;
const PROMOTED: usize = 256;
const EXPIRED: usize = 128;
const SWEPT: usize = 128;

/// Takes back leases whose time ran out. Returns how many.
pub(crate) async fn reclaim(
    redis: &Redis,
    shard: &ShardKeys,
    until: Instant,
) -> Result<usize, StoreError> {
    let queue = shard.queue.as_str();
    let mut all = 0;
    loop {
        let replies = Reclaim { shard, limit: RECLAIMED, named: &[] }.run(redis).await?;
        all += replies.iter().filter(|reply| !matches!(reply, ReclaimReply::Lowered(_))).count();
        for reply in &replies {
            let charge = match reply {
                ReclaimReply::Returned(_, charge) => {
                    metrics::redelivered(queue, 1);
                    *charge
                }
                ReclaimReply::Ended(_, outcome, charge) => {
                    metrics::ended(queue, outcome.word());
                    *charge
                }
                ReclaimReply::Dropped(_) | ReclaimReply::Lost(_) | ReclaimReply::Lowered(_) => {
                    Charge::None
                }
            };
            match charge {
                Charge::Lapse => metrics::lapsed(queue, 1),
                Charge::Forgiven => metrics::forgiven(queue, 1),
                Charge::None => {}
            }
        }
        if replies.len() < RECLAIMED || Instant::now() >= until {
            return Ok(all);
        }
    }
}

/// Lets what is due be claimed again. Returns how many.
pub(crate) async fn promote(
    redis: &Redis,
    shard: &ShardKeys,
    until: Instant,
) -> Result<usize, StoreError> {
    let mut all = 0;
    loop {
        let replies = Promote { shard, limit: PROMOTED, named: &[] }.run(redis).await?;
        all += replies.iter().filter(|reply| matches!(reply, PromoteReply::Moved(_))).count();
        if replies.len() < PROMOTED || Instant::now() >= until {
            return Ok(all);
        }
    }
}

/// Ends what waited past its deadline. Returns how many.
pub(crate) async fn expire(
    redis: &Redis,
    shard: &ShardKeys,
    until: Instant,
) -> Result<usize, StoreError> {
    let mut all = 0;
    loop {
        let ended = Expire { shard, limit: EXPIRED }.run(redis).await?;
        for (_, outcome) in &ended {
            metrics::ended(shard.queue.as_str(), outcome.word());
        }
        all += ended.len();
        if ended.len() < EXPIRED || Instant::now() >= until {
            return Ok(all);
        }
    }
}

/// Forgets what ended long enough ago. Returns how many.
pub(crate) async fn sweep(
    redis: &Redis,
    shard: &ShardKeys,
    until: Instant,
) -> Result<usize, StoreError> {
    let mut all = 0;
    loop {
        let replies = Sweep { shard, limit: SWEPT }.run(redis).await?;
        all += replies.len();
        if replies.len() < SWEPT || Instant::now() >= until {
            return Ok(all);
        }
    }
}
