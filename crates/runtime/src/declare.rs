//! Telling Redis what the settings say: the server and our user's rights are checked, queues are
//! registered, their policy is written into each shard. Then, once a minute and with each new
//! connection, looking whether it is still so.

use std::collections::BTreeMap;
use std::future::pending;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{QueueName, SCHEMA, Session};
use holdfast_core::redis::{Connections, Fault, ServerReport};
use holdfast_core::rights::{self, Lacking, Role, Served};
use holdfast_core::script::{Policy, PolicyReply, QueuePolicy, Register, RegisterReply};
use holdfast_core::{Redis, StoreError, counted, metrics};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::settings::QueueSettings;
use crate::{Chain, HealthPart};

/// How often the rows are renewed and the policy is looked at.
const EVERY: Duration = Duration::from_secs(60);

/// How long to wait before what failed is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Clocks further apart than this are warned about.
const SKEW: f64 = 1.0;

/// Why work can't be trusted to this Redis.
#[derive(Debug, thiserror::Error)]
pub enum Undeclarable {
    /// The server is not fit.
    #[error("this redis can't be used: {0}")]
    Server(Fault),
    /// The number of shards was another when the queue was first used.
    #[error(
        "queue {queue} is registered with \"{registered}\" (shards schema), the settings say {}",
        counted(u64::from(shards.get()), "shard", "shards")
    )]
    Shards {
        /// The queue.
        queue: QueueName,
        /// What the settings say.
        shards: NonZeroU32,
        /// What the registry says.
        registered: String,
    },
    /// The keys belong to a newer version.
    #[error("queue {queue} has keys of schema {schema}, which this version does not know")]
    Newer {
        /// The queue.
        queue: QueueName,
        /// Its schema.
        schema: u64,
    },
}

/// What a process declares.
pub struct Declaring {
    role: Role,
    redis: Redis,
    connections: Connections,
    queues: BTreeMap<QueueName, QueuePolicy>,
    worker: Option<(Session, watch::Receiver<String>)>,
    health: HealthPart,
    again: Arc<Notify>,
    versions: BTreeMap<String, u64>,
    told_time: Option<ToldTime>,
    faults: Vec<&'static str>,
    served: Vec<Served>,
    lacking: Lacking,
}

/// Who wants to know what time it is by the clock of Redis, in ms, and how long that answer took.
type ToldTime = Box<dyn Fn(u64, Duration) + Send + Sync>;

enum Round {
    Failed(StoreError),
    /// Our user lacks a right; which one is told.
    Denied,
    Impossible(Undeclarable),
}

impl From<StoreError> for Round {
    fn from(err: StoreError) -> Self {
        Self::Failed(err)
    }
}

impl Declaring {
    /// Declares these queues for a role; `health` is ready once that has succeeded.
    pub fn new(
        role: Role,
        redis: Redis,
        queues: &BTreeMap<QueueName, QueueSettings>,
        health: HealthPart,
    ) -> Self {
        let served = queues.iter().flat_map(|(name, queue)| {
            let level = queue.level();
            let shards = ShardKeys::all(name, queue.policy().shards.get()).into_iter();
            shards.map(move |shard| Served { shard, level })
        });
        let served = served.collect();
        let queues = queues.iter().map(|(name, queue)| (name.clone(), queue.policy())).collect();
        let (again, versions) = (Arc::new(Notify::new()), BTreeMap::new());
        Self {
            role,
            connections: redis.connections(),
            redis,
            queues,
            worker: None,
            health,
            again,
            versions,
            told_time: None,
            faults: Vec::new(),
            served,
            lacking: Lacking::default(),
        }
    }

    /// Shows a worker as well: its session, and what is to be told of it, also when it changes.
    pub fn with_worker(mut self, session: Session, told: watch::Receiver<String>) -> Self {
        self.worker = Some((session, told));
        self
    }

    /// Tells `told` the time of Redis, in ms, and how long that answer took: before `health` is ready, and at each round.
    pub fn with_time(mut self, told: impl Fn(u64, Duration) + Send + Sync + 'static) -> Self {
        self.told_time = Some(Box::new(told));
        self
    }

    /// Notified, this declares anew: for whoever finds that Redis forgot.
    pub fn again(&self) -> Arc<Notify> {
        Arc::clone(&self.again)
    }

    /// Declares until `stop`. Ends early only if work can't be trusted to this Redis.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), Undeclarable> {
        let mut first = true;
        loop {
            let wait = match self.round(first).await {
                Ok(()) => {
                    if first {
                        info!(queues = self.queues.len(), "declared");
                    }
                    first = false;
                    self.health.ready();
                    EVERY
                }
                Err(Round::Impossible(why)) => return Err(why),
                Err(failed) => {
                    if first {
                        self.health.not_ready("queues are not declared yet");
                    }
                    if let Round::Failed(err) = failed {
                        let (redis, why) = (self.redis.place(), self.redis.why_lost());
                        warn!(error = %Chain(&err), redis, why, "queues not declared");
                    }
                    AGAIN
                }
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = self.between(Instant::now() + wait) => {}
            }
            // Asked by many at once, it still declares once in a while only.
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = sleep(AGAIN) => {}
            }
        }
    }

    /// Waits for the next round, for a new connection or until somebody asks for a round, and tells
    /// meanwhile how the worker changes.
    async fn between(&mut self, due: Instant) {
        loop {
            tokio::select! {
                () = self.again.notified() => return,
                // Another server may answer there, with users of its own.
                () = self.connections.next() => return,
                () = sleep_until(due) => return,
                () = changed(&mut self.worker), if self.lacking.needed.is_empty() => {}
            }
            if let Err(err) = self.show_worker().await {
                debug!(error = %Chain(&err), "what changed of this worker is told by the next round");
            }
            // Whatever changes all the time is told once in a while only.
            sleep(AGAIN).await;
        }
    }

    async fn show_worker(&mut self) -> Result<(), StoreError> {
        if let Some((session, told)) = &mut self.worker {
            let told = told.borrow_and_update().clone();
            Register::Worker(*session, &told).run(&self.redis).await?;
        }
        Ok(())
    }

    async fn round(&mut self, first: bool) -> Result<(), Round> {
        self.check_server(first).await?;
        // Whoever has just answered is looked at now; what comes later is news.
        self.connections = self.redis.connections();
        self.check_rights().await?;
        for (queue, policy) in &self.queues {
            let (row, asked) = (Register::Queue(queue, policy.shards), Instant::now());
            match row.run(&self.redis).await? {
                // The second is said of workers alone.
                RegisterReply::Registered(now) | RegisterReply::Ended(now) => {
                    note_skew(now);
                    if let Some(told) = &self.told_time {
                        told(now, asked.elapsed());
                    }
                }
                RegisterReply::Differs(registered) => {
                    let (queue, shards) = (queue.clone(), policy.shards);
                    if let Some(schema) = newer_schema(&registered) {
                        return Err(Round::Impossible(Undeclarable::Newer { queue, schema }));
                    }
                    return Err(Round::Impossible(Undeclarable::Shards {
                        queue,
                        shards,
                        registered,
                    }));
                }
            }
            for shard in ShardKeys::all(queue, policy.shards.get()) {
                declare(&self.redis, &shard, policy, first, &mut self.versions).await?;
            }
        }
        Ok(self.show_worker().await?)
    }

    /// At the start an unfit server ends the process. Of one that is set up otherwise later, logs and
    /// metrics tell: it holds accepted work, which only a running process can bring to its end.
    async fn check_server(&mut self, first: bool) -> Result<(), Round> {
        let faults = ServerReport::read(&self.redis).await?.faults();
        let words: Vec<_> = faults.iter().map(Fault::word).collect();
        let news = words != self.faults;
        self.faults = words;
        for fault in faults {
            if first && fault.is_fatal() {
                return Err(Round::Impossible(Undeclarable::Server(fault)));
            }
            if news {
                warn!(reason = fault.word(), "{fault}");
            }
        }
        Ok(())
    }

    /// With half of its rights a role would do half of its work: it says what lacks, and asks again.
    async fn check_rights(&mut self) -> Result<(), Round> {
        let lacking = rights::lacking(&self.redis, self.role, &self.served).await?;
        let (role, news) = (self.role.word(), lacking != self.lacking);
        let (needed, useful) = (lacking.needed.join(" "), lacking.useful.join(" "));
        self.lacking = lacking;
        if news && !useful.is_empty() {
            warn!(
                role,
                rights = useful,
                "the user of redis lacks rights that this role can do without: without spublish and ssubscribe \
                    ends and cancels are seen by polling, without info nothing is known of the server, and \
                    without the others no answer is fsynced or replicated"
            );
        }
        if needed.is_empty() {
            if news {
                info!(role, "the user of redis has every right that is needed");
            }
            return Ok(());
        }
        if news {
            error!(
                role,
                rights = needed,
                "the user of redis lacks rights that this role needs: nothing is done until they are granted"
            );
        }
        Err(Round::Denied)
    }
}

/// The schema of a row of the registry, "shards schema", if a newer version wrote it.
fn newer_schema(registered: &str) -> Option<u64> {
    let (_, schema) = registered.split_once(' ')?;
    schema.parse().ok().filter(|schema| *schema > u64::from(SCHEMA))
}

/// Ends when something changes that is to be told of a worker.
async fn changed(worker: &mut Option<(Session, watch::Receiver<String>)>) {
    if let Some((_, told)) = worker
        && told.changed().await.is_ok()
    {
        return;
    }
    // There is none, or it is gone.
    pending().await
}

/// Writes the policy at the start; later it looks, and writes only what Redis forgot.
async fn declare(
    redis: &Redis,
    shard: &ShardKeys,
    policy: &QueuePolicy,
    first: bool,
    versions: &mut BTreeMap<String, u64>,
) -> Result<(), Round> {
    let known = versions.get(&shard.meta).copied();
    let mut reply = Policy { shard, policy, write: first }.run(redis).await?;
    if reply == PolicyReply::Differs(0) {
        error!(queue = %shard.queue, shard = shard.shard, "redis has forgotten this shard's policy: writing it again");
        reply = Policy { shard, policy, write: true }.run(redis).await?;
    }
    let version = match reply {
        PolicyReply::Same(version) | PolicyReply::Written(version) => version,
        PolicyReply::Differs(version) => {
            if known != Some(version) {
                warn!(queue = %shard.queue, shard = shard.shard, "another process has written other settings for this queue");
            }
            version
        }
        PolicyReply::Newer(schema) => {
            return Err(Round::Impossible(Undeclarable::Newer {
                queue: shard.queue.clone(),
                schema,
            }));
        }
    };
    versions.insert(shard.meta.clone(), version);
    Ok(())
}

fn note_skew(redis_ms: u64) {
    #[expect(clippy::disallowed_methods, reason = "this very clock is what is measured")]
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let Ok(here) = here else { return };
    let skew = redis_ms as f64 / 1e3 - here.as_secs_f64();
    metrics::clock_skew(skew);
    if skew.abs() > SKEW {
        warn!(seconds = skew, "the clocks of redis and of this machine differ");
    }
}

impl QueueSettings {
    /// What the scripts must know of this queue.
    pub fn policy(&self) -> QueuePolicy {
        QueuePolicy {
            shards: self.shards,
            max_lapses: self.max_lapses,
            retention: self.times.retention,
            dead_retention: self.times.dead_retention,
            capacity: self.capacity,
            capacity_bytes: self.capacity_bytes,
            in_flight: self.in_flight,
        }
    }
}
