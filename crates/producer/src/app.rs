//! What every handler shares.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Identity, Key, QueueName, RequestId, TenantName};
use holdfast_core::script::{LaneLimits, QueuePolicy};
use holdfast_runtime::Traces;
use holdfast_runtime::settings::Allowed;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::admission::{Candidate, Told};
use crate::batcher::Batcher;
use crate::durable::Confirmer;
use crate::ended::Ended;
use crate::holders::Holders;
use crate::item::Frame;
use crate::large::Large;
use crate::lookup::Looked;
use crate::who::Who;
use crate::operate::Acts;

/// What every handler shares.
#[derive(Debug)]
pub(crate) struct App {
    /// The queues of the settings, by name.
    pub(crate) queues: BTreeMap<QueueName, Arc<Queue>>,
    /// Where what is kept lies.
    pub(crate) store: Store,
    /// Who waits for which end.
    pub(crate) ended: Ended,
    /// What workers call themselves.
    pub(crate) holders: Holders,
    /// A permit for each byte of the bodies that are in the process.
    pub(crate) memory: Arc<Semaphore>,
    /// How large records come.
    pub(crate) large: Large,
    /// A permit for each item of a batch that waits for its call, so that single submits always find room.
    pub(crate) batched: Arc<Semaphore>,
    /// The longest wait that is granted.
    pub(crate) wait_max: Duration,
    /// Who callers are.
    pub(crate) who: Who,
    /// What tenants may have in each queue; who is not there has no limit.
    pub(crate) tenants: BTreeMap<TenantName, LaneLimits>,
    /// Where spans begin.
    /// The operators' actions that run.
    pub(crate) acts: Acts,
    pub(crate) traces: Traces,
    /// Cancelled when the process stops.
    pub(crate) stop: CancellationToken,
}

/// Redis, and how long a caller waits for it.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) redis: Redis,
    /// How long a call to it may take in all, its repeats included.
    pub(crate) patience: Duration,
    pub(crate) clock: Arc<Clock>,
    /// Notified by whoever finds that Redis forgot the queues.
    pub(crate) declare_again: Arc<Notify>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("patience", &self.patience).finish_non_exhaustive()
    }
}

/// A declared queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: QueueName,
    pub(crate) policy: QueuePolicy,
    /// From submit to deadline, where the caller names neither.
    pub(crate) timeout_default: Duration,
    /// What a request may say of its call to the gateway.
    pub(crate) allowed: Allowed,
    /// The longest body of a submit.
    pub(crate) body_limit: usize,
    pub(crate) shards: Vec<Shard>,
}

impl Queue {
    /// What is needed beside the body to understand an item that comes now.
    pub(crate) fn frame(&self, now_ms: u64) -> Frame<'_> {
        Frame { now_ms, timeout_default: self.timeout_default, allowed: &self.allowed }
    }
}

/// One shard, and the calls that travel there together.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) keys: Arc<ShardKeys>,
    pub(crate) submits: Batcher<Candidate, Told>,
    pub(crate) lookups: Batcher<Key, Looked>,
    /// Its looks that wait, if the queue asks for more than Redis gives by itself.
    pub(crate) confirmer: Option<Arc<Confirmer>>,
}

/// A request of a queue: what it is called, and where it lies if it is there.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) queue: Arc<Queue>,
    pub(crate) identity: Identity,
    pub(crate) key: Key,
    shard: usize,
}

impl App {
    /// What the tenant of a request may have in its shard.
    pub(crate) fn limits(&self, named: &Named) -> LaneLimits {
        let limits = self.tenants.get(&named.identity.tenant).copied().unwrap_or_default();
        limits.part(named.shard().keys.shard, named.queue.policy.shards)
    }
}

impl Named {
    /// Finds the place of an id.
    pub(crate) fn new(queue: Arc<Queue>, tenant: &TenantName, id: RequestId) -> Self {
        let identity = Identity { tenant: tenant.clone(), id };
        let place = identity.place(queue.policy.shards);
        Self { queue, identity, key: place.key, shard: place.shard as usize }
    }

    /// What was found at a key of a shard.
    pub(crate) fn found(queue: Arc<Queue>, identity: Identity, (key, shard): (Key, usize)) -> Self {
        Self { queue, identity, key, shard }
    }

    /// The shard that it belongs to.
    pub(crate) fn shard(&self) -> &Shard {
        // The place is taken modulo the number of shards, of which there is at least one.
        &self.queue.shards[self.shard]
    }
}

/// An answer that came as soon tells the time well enough.
const QUICK: Duration = Duration::from_millis(100);

/// The time of Redis, as this host's clock and the last known difference give it.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    ahead_ms: AtomicI64,
    /// Whether Redis has told the time before.
    known: AtomicBool,
}

impl Clock {
    /// Unix time in ms, by the clock that decides about deadlines.
    pub(crate) fn now_ms(&self) -> u64 {
        host_ms().saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Redis said that it is `redis_ms`, in answer to a call that took `elapsed`.
    ///
    /// A slow answer says too little about when it was given, but more than this host's own clock.
    pub(crate) fn note(&self, redis_ms: u64, elapsed: Duration) {
        if elapsed > QUICK && self.known.load(Ordering::Relaxed) {
            return;
        }
        let half_ms = u64::try_from(elapsed.as_millis() / 2).unwrap_or_default();
        let here = i128::from(host_ms().saturating_sub(half_ms));
        if let Ok(ahead) = i64::try_from(i128::from(redis_ms) - here) {
            self.ahead_ms.store(ahead, Ordering::Relaxed);
            self.known.store(true, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "only its difference to the clock of Redis is used")]
fn host_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_counted_by_the_clock_of_redis() {
        let clock = Clock::default();
        let an_hour = 3_600_000;
        clock.note(host_ms() + an_hour, Duration::ZERO);
        assert!(clock.now_ms().abs_diff(host_ms() + an_hour) < 1_000);
        clock.note(host_ms() - an_hour, Duration::from_millis(10));
        assert!(clock.now_ms().abs_diff(host_ms() - an_hour) < 1_000);
        clock.note(host_ms(), Duration::from_secs(1));
        assert!(clock.now_ms().abs_diff(host_ms() - an_hour) < 1_000, "too slow to tell");

        let clock = Clock::default();
        clock.note(host_ms() + an_hour, Duration::from_secs(1));
        assert!(clock.now_ms().abs_diff(host_ms() + an_hour) < 1_000, "better than nothing");
    }
}
