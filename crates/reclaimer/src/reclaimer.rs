//! The passes: tick, look at every shard, never die of one bad round.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use holdfast_core::clock::ClockWatch;
use holdfast_core::keys::ShardKeys;
use holdfast_core::operate::{self, Queue};
use holdfast_core::script::{Depth, DepthReply};
use holdfast_core::{Chain, Redis, StoreError, metrics};
use holdfast_runtime::Seldom;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::gauges::Gauges;
use crate::queues::Queues;
use crate::{Config, upkeep};

/// How many shards are looked at at once.
const AT_ONCE: usize = 16;

/// How often one and the same trouble is logged.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The loops of a pass, as metrics call them.
const LOOPS: [&str; 5] = ["reclaim", "promote", "expire", "sweep", "depth"];

/// Those of them that rest after a leap of the Redis clock, and have no turn where the clock was not seen.
const RESTING: [&str; 2] = ["expire", "sweep"];

/// For how many passes nothing is swept once nothing was over: retention is long, and a call a pass is what an idle
/// shard would cost.
const REST_PASSES: u32 = 10;

/// But never longer: doctor tells that nobody sweeps after ten seconds. The beat of an idle shard may so grow older than half a
/// lease, which is then taken for an outage; but a beat comes within a third of a lease of the next claim, and its pardon
/// ends half a lease later, before that lease does.
const REST: Duration = Duration::from_secs(8);

/// Gives back, promotes, ends and sweeps, shard by shard.
pub struct Reclaimer {
    redis: Redis,
    every: Duration,
    lease: Duration,
    queues: Queues,
    known: BTreeMap<String, Known>,
    trouble: Seldom,
}

/// What is known of a shard from one pass to the next.
#[derive(Default)]
struct Known {
    clock: ClockWatch,
    /// Nothing was over at the last sweep: none before then.
    sweep_at: Option<Instant>,
}

/// What a pass found in one shard, and what it could not do.
struct Looked {
    shard: ShardKeys,
    known: Known,
    leapt: bool,
    depth: Option<DepthReply>,
    failures: Vec<(&'static str, StoreError)>,
    /// Loops that had no turn because of that.
    missed: &'static [&'static str],
    reclaimed: usize,
}

impl Reclaimer {
    /// A reclaimer over an open Redis.
    pub fn new(redis: Redis, config: Config) -> Self {
        let queues = Queues::new(&config);
        let trouble = Seldom::new(LOG_EVERY);
        Self {
            redis,
            every: config.every,
            lease: config.lease,
            queues,
            known: BTreeMap::new(),
            trouble,
        }
    }

    /// Looks at every shard, again and again, until `stop`.
    ///
    /// A failed round is logged and left to the next one: this loop never ends by itself.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Infallible> {
        RESTING.into_iter().for_each(metrics::clock_watched);
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _ = ticks.tick() => {}
            }
            tokio::select! {
                // Every script is whole by itself: a pass may be left anywhere.
                () = stop.cancelled() => return Ok(()),
                // Boxed: so many futures one in the other are more than the compiler looks through.
                () = Box::pin(self.round()) => {}
            }
        }
    }

    /// One pass over every known shard.
    pub async fn round(&mut self) {
        for name in self.pass().await {
            metrics::loop_succeeded(name, unix_seconds());
        }
    }

    /// The same. Returns the loops that had a good round.
    async fn pass(&mut self) -> Vec<&'static str> {
        if let Err(err) = self.queues.shards(&self.redis).await {
            self.log(&err, "the registry of queues can't be read");
            if self.queues.known().is_empty() {
                // Nothing was looked at: that is no good round of anything.
                return Vec::new();
            }
        }
        let mut failed: Vec<&'static str> = Vec::new();
        let mut gauges = Gauges::default();
        let mut looking = JoinSet::new();
        let shards = self.queues.known().to_vec();
        // With a backlog in all of them a pass is over when the next one is due.
        let turns = shards.len().div_ceil(AT_ONCE).max(1);
        let share = self.every.div_f64(turns as f64);
        let mut waiting = shards.into_iter();
        loop {
            while looking.len() < AT_ONCE {
                let Some(shard) = waiting.next() else { break };
                let known = self.known.remove(&shard.meta).unwrap_or_default();
                let rest = (self.every * REST_PASSES).min(REST);
                looking.spawn(look(self.redis.clone(), shard, known, self.lease, (rest, share)));
            }
            // An empty set: every shard has been looked at.
            let Some(looked) = looking.join_next().await else { break };
            match looked {
                Ok(looked) => self.take(looked, &mut gauges, &mut failed),
                Err(_) => error!("looking at a shard panicked"),
            }
        }
        for queue in self.queues.split() {
            self.carry_on(&queue).await;
        }
        gauges.tell();
        LOOPS.into_iter().filter(|name| !failed.contains(name)).collect()
    }

    fn take(&mut self, looked: Looked, gauges: &mut Gauges, failed: &mut Vec<&'static str>) {
        let queue = &looked.shard.queue;
        if looked.reclaimed > 0 {
            let leases = looked.reclaimed;
            info!(%queue, shard = looked.shard.shard, leases, "leases lapsed: requests taken back");
        }
        for (name, err) in looked.failures {
            self.log(&err, name);
            failed.push(name);
        }
        failed.extend(looked.missed);
        if looked.leapt {
            error!(%queue, "the redis clock leapt ahead: it ends and sweeps nothing for 10 minutes");
            RESTING.into_iter().for_each(metrics::clock_skipped);
        }
        if let Some(depth) = looked.depth {
            gauges.add(queue, &depth);
        }
        self.known.insert(looked.shard.meta, looked.known);
    }

    /// Carries an operator's word on to the shards that have not heard of it.
    async fn carry_on(&self, queue: &Queue) {
        match operate::carry_on(&self.redis, queue).await {
            Ok(0) => {}
            Ok(words) => info!(queue = %queue.name, words, "carried operators' words on"),
            Err(err) => self.log(&err, "operators' words are not carried on"),
        }
    }

    fn log(&self, err: &StoreError, what: &str) {
        if let Some(held_back) = self.trouble.now() {
            warn!(error = %Chain(err), held_back, "round failed: {what}");
        }
    }
}

/// Looks at one shard, and does what is to be done there: what is where tells, so that an idle one costs one call.
///
/// A backlog gets `share` of the pass; the next one goes on with it, since `depth` tells of it then as well, and a sweep that
/// found something does not rest.
async fn look(
    redis: Redis,
    shard: ShardKeys,
    mut known: Known,
    lease: Duration,
    (rest, share): (Duration, Duration),
) -> Looked {
    let until = Instant::now() + share;
    let (mut failures, mut leapt) = (Vec::new(), false);
    let mut note = |name, result: Result<usize, StoreError>| {
        result.map_err(|err| failures.push((name, err))).unwrap_or_default()
    };
    let mut depth = see(&redis, &shard, &mut known.clock, lease, &mut leapt).await;
    if let Err(err @ StoreError::Unanswered { .. }) = depth {
        // Each further call would wait for as long, and all shards with it.
        let failures = vec![("depth", err)];
        return Looked { shard, known, leapt, depth: None, failures, missed: &LOOPS, reclaimed: 0 };
    }
    // What could not be counted may be there.
    let may_hold = |count: fn(&DepthReply) -> u64| depth.as_ref().map_or(true, |it| count(it) > 0);
    let is_rested = known.sweep_at.is_none_or(|at| at <= Instant::now());
    // A shard that holds nothing is reclaimed now and then all the same: that writes its beat.
    let leased = may_hold(|it| it.leased) || is_rested;
    let delayed = may_hold(|it| it.delayed);
    let reclaimed = match leased {
        true => note("reclaim", upkeep::reclaim(&redis, &shard, until).await),
        false => 0,
    };
    let promoted = match delayed {
        true => note("promote", upkeep::promote(&redis, &shard, until).await),
        false => 0,
    };
    if reclaimed + promoted > 0 && depth.is_ok() {
        // The clock before what ends by it, and the gauges after what has moved.
        depth = see(&redis, &shard, &mut known.clock, lease, &mut leapt).await;
    }
    let depth = depth.map_err(|err| note("depth", Err(err))).ok();
    let now = Instant::now();
    // A rest after a leap is on purpose, and told by a metric of its own: no loop stalls by that.
    let missed: &[_] = if depth.is_none() { &RESTING } else { &[] };
    if let Some(seen) = depth.filter(|_| known.clock.is_trusted(now)) {
        // A head whose score is no time of ours hides whatever is late behind it.
        let may_be_late = seen.head_deadline.is_none_or(|deadline| deadline <= seen.now);
        if seen.suspects > 0 || seen.pending > 0 && may_be_late {
            note("expire", upkeep::expire(&redis, &shard, until).await);
        }
        if is_rested {
            let swept = upkeep::sweep(&redis, &shard, until).await;
            known.sweep_at = matches!(swept, Ok(0)).then(|| now + rest);
            note("sweep", swept);
        }
    }
    Looked { shard, known, leapt, depth, failures, missed, reclaimed }
}

/// How much is where, and a sight of the clock.
async fn see(
    redis: &Redis,
    shard: &ShardKeys,
    clock: &mut ClockWatch,
    lease: Duration,
    leapt: &mut bool,
) -> Result<DepthReply, StoreError> {
    let asked = Instant::now();
    let seen = Depth { shard }.run(redis).await?;
    *leapt |= clock.sight(seen.now, asked, Instant::now(), lease);
    Ok(seen)
}

fn unix_seconds() -> f64 {
    #[expect(clippy::disallowed_methods, reason = "a time for people, no lease")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}

#[cfg(test)]
mod tests;
