//! What every handler shares.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Identity, Key, QueueName, RequestId, TenantName};
use holdfast_core::script::{LaneLimits, QueuePolicy};
use holdfast_runtime::Traces;
use holdfast_runtime::settings::Allowed;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::{Candidate, Told};
use crate::batcher::Batcher;
use crate::durable::Confirmer;
use crate::ended::Ended;
use crate::holders::Holders;
use crate::item::Frame;
use crate::large::Large;
use crate::lookup::Looked;
use crate::operate::Acts;
use crate::who::Who;

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
    /// The operators' actions that run.
    pub(crate) acts: Acts,
    /// Where spans begin.
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

/// If the clock of this host and the time that has passed part by more, somebody has set the one or held the other.
const APART_MS: u64 = 1_000;

/// The time of Redis: what it said last, and how long ago that is. This host's clock is not gone by, since somebody may set it.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    /// How long this host had slept by then: a time that [`Instant`] does not count.
    slept_ms: u64,
    /// What time it was then; this host's clock says so until Redis does.
    started_ms: AtomicU64,
    /// The same by this host's clock, as it went when Redis told the time last.
    host_ms: AtomicU64,
    /// Whether Redis has told the time before.
    known: AtomicBool,
    /// Notified, somebody asks Redis for the time.
    ask: Arc<Notify>,
}

impl Clock {
    /// A clock that has not heard from Redis; `ask` is notified when it must.
    pub(crate) fn new(ask: Arc<Notify>) -> Self {
        let (started, now) = (Instant::now(), host_ms());
        let known = AtomicBool::new(false);
        let (started_ms, host_ms) = (AtomicU64::new(now), AtomicU64::new(now));
        Self { started, slept_ms: slept_ms(), started_ms, host_ms, known, ask }
    }

    /// The time since it was started, in ms.
    fn since(&self) -> u64 {
        let awake = ms(self.started.elapsed());
        awake.saturating_add(slept_ms().saturating_sub(self.slept_ms))
    }

    /// Unix time in ms, by the clock that decides about deadlines.
    pub(crate) fn now_ms(&self) -> u64 {
        let since = self.since();
        if self.is_apart(since) {
            self.ask.notify_one();
        }
        self.started_ms.load(Ordering::Relaxed).saturating_add(since)
    }

    /// Redis said that it is `redis_ms`, in answer to a call that took `elapsed`.
    ///
    /// A slow answer says too little about when it was given, but more than this host's own clock.
    pub(crate) fn note(&self, redis_ms: u64, elapsed: Duration) {
        let since = self.since();
        if elapsed > QUICK && self.known.load(Ordering::Relaxed) && !self.is_apart(since) {
            return;
        }
        let then = since.saturating_sub(ms(elapsed / 2));
        self.started_ms.store(redis_ms.saturating_sub(then), Ordering::Relaxed);
        self.host_ms.store(host_ms().saturating_sub(since), Ordering::Relaxed);
        self.known.store(true, Ordering::Relaxed);
    }

    /// Whether this host's clock was set since, or time went on that is not counted: this host slept, and does not say so.
    fn is_apart(&self, since: u64) -> bool {
        let began = host_ms().saturating_sub(since);
        self.host_ms.load(Ordering::Relaxed).abs_diff(began) > APART_MS
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "until Redis tells the time, and to see that somebody set it"
)]
fn host_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = ms(since);
    #[cfg(test)]
    let now = now.saturating_add_signed(tests::STEP.get()).saturating_add(tests::SLEPT.get());
    now
}

/// How long this host has slept since it was started, in ms, as far as it says so.
fn slept_ms() -> u64 {
    let slept = slept().unwrap_or_default();
    #[cfg(test)]
    let slept = slept.saturating_add(tests::SLEPT.get());
    slept
}

/// One clock stands still meanwhile, the other goes on. Read in this order they say too much rather than too little, by the
/// time that passes in between.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn slept() -> Option<u64> {
    use nix::time::{ClockId, clock_gettime};
    let read = |clock| clock_gettime(clock).ok().map(Duration::from);
    let (awake, all) = (read(ClockId::CLOCK_MONOTONIC)?, read(ClockId::CLOCK_BOOTTIME)?);
    Some(ms(all.saturating_sub(awake)))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn slept() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;

    use super::*;

    thread_local! {
        /// How far somebody has set the clock of the host since, in ms.
        pub(super) static STEP: Cell<i64> = const { Cell::new(0) };
        /// How long the host has slept since, in ms.
        pub(super) static SLEPT: Cell<u64> = const { Cell::new(0) };
    }

    impl Default for Clock {
        fn default() -> Self {
            Self::new(Arc::default())
        }
    }

    #[tokio::test]
    async fn whoever_sets_the_clock_of_the_host_moves_no_deadline() {
        let clock = Clock::default();
        let redis = host_ms();
        clock.note(redis, Duration::ZERO);
        for step in [-3_600_000, 3_600_000] {
            STEP.set(step);
            assert!(clock.now_ms().abs_diff(redis) < 60_000, "{step}");
            // Either may be wrong: whoever knows is asked, and then it is well again.
            clock.ask.notified().await;
            clock.note(redis, Duration::from_secs(1));
            assert!(clock.now_ms().abs_diff(redis) < 60_000, "{step}");
            assert!(clock.ask.notified().now_or_never().is_none(), "{step}");
        }
        clock.note(redis + 5_000, Duration::ZERO);
        STEP.set(0);
        assert!(clock.now_ms().abs_diff(redis + 5_000) < 60_000);
    }

    #[test]
    fn a_host_that_slept_moves_no_deadline() {
        let clock = Clock::default();
        let redis = host_ms();
        clock.note(redis, Duration::ZERO);
        SLEPT.set(3_600_000);
        let now = clock.now_ms();
        assert!(now.abs_diff(redis + 3_600_000) < 60_000, "{redis} {now}");
        assert!(clock.ask.notified().now_or_never().is_none(), "it is well by itself");
        // Also where its clock was set meanwhile.
        STEP.set(-7_200_000);
        assert!(clock.now_ms().abs_diff(redis + 3_600_000) < 60_000);
    }

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
