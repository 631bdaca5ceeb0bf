//! Puts the API together and runs it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::keys::ShardKeys;
use holdfast_core::model::QueueName;
use holdfast_core::redis::{Level, OpenError, Subscriber};
use holdfast_core::rights::Role;
use holdfast_core::script::{MAX_BYTES, MAX_ITEMS, QueuePolicy};
use holdfast_core::{Redis, metrics};
use holdfast_runtime::declare::Declaring;
use holdfast_runtime::keys;
use holdfast_runtime::serve::{self, Listening};
use holdfast_runtime::settings::{GRACE, GRACE_RESERVE, HttpLimits, QueueSettings};
use holdfast_runtime::{BoxError, Seldom, Services, Traces};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::admission::Admission;
use crate::app::{App, Clock, Queue, Shard, Store};
use crate::batcher::{self, Bounds};
use crate::durable::Kept;
use crate::ended::Ended;
use crate::holders::Holders;
use crate::large::Large;
use crate::lookup::Lookup;
use crate::operate::Acts;
use crate::store::MOMENT;
use crate::who::Who;
use crate::{Config, api, durable, operate, wait};

/// What all bodies in the process may take together, in bytes, unless one alone may take more.
const BODIES: usize = 256 << 20;

/// How many callers may wait for the next call to a shard. More are told so at once.
const SUBMITS_WAITING: usize = 4096;
const LOOKUPS_WAITING: usize = 16_384;

/// How many items of batches may be among those; the next ones are read later.
const BATCHED: usize = SUBMITS_WAITING / 2;

/// How many connections of operators are open at once.
const OPERATORS: usize = 64;

/// How long an operator's call may go on once the process stops; one that runs dead letters again takes no longer.
const OPERATORS_DRAIN: Duration = Duration::from_secs(8);

/// How often the same fault of a shard is told.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// A producer process: Redis, the ops port, and the API.
pub async fn start(config: Config) -> Result<Services, BoxError> {
    let mut services = Services::new();
    let redis = services.open_redis(&config.redis)?;
    services.open_ops("producer.ops_listen", config.ops_listen).await?;
    spawn(&mut services, redis, config).await?;
    Ok(services)
}

/// Where a producer listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The API.
    pub api: SocketAddr,
    /// Operators' calls.
    pub operators: SocketAddr,
}

/// Adds the API and the operators' calls to a process whose Redis is open. Says where they listen.
pub async fn spawn(
    services: &mut Services,
    redis: Redis,
    config: Config,
) -> Result<Addresses, BoxError> {
    let listener = serve::bind("producer.listen", config.listen).await?;
    let operators = serve::bind("producer.operator_listen", config.operator_listen).await?;
    let addresses = Addresses { api: listener.local_addr()?, operators: operators.local_addr()? };
    let health = services.health().part("queues");
    let declaring = Declaring::new(Role::Producer, redis.clone(), &config.queues, health);
    let traces = services.open_traces(&config.traces, "holdfast-producer", None);
    let around = Around { declare_again: declaring.again(), traces, stop: services.stop() };
    let Assembled { app, loops } = assemble(redis, &config, around)?;
    // Who is ready knows the time by which deadlines are judged, whatever this host's clock says.
    let clock = Arc::clone(&app.store.clock);
    let declaring = declaring.with_time(move |now, took| clock.note(now, took));
    services.spawn("declaring", |stop| declaring.run(stop));
    match config.keys {
        Some(keys) => services.spawn("keys", |stop| keys.watch(stop)),
        None => metrics::file_stale(keys::SETTING, false),
    }
    let router = operate::router(Arc::clone(&app));
    // From this host alone nobody listens in, and no certificate is made out to the loopback address.
    let open = !addresses.operators.ip().is_loopback();
    let operators = Listening { listener: operators, tls: config.tls.clone().filter(|_| open) };
    let limits = HttpLimits { max_connections: OPERATORS, ..config.limits.clone() };
    let acting = Arc::clone(&app);
    services.spawn("operators", |stop| async move {
        serve::http(operators, router, limits, OPERATORS_DRAIN, stop).await?;
        // Those whose callers have left.
        acting.acts.finish(OPERATORS_DRAIN).await;
        Ok::<(), BoxError>(())
    });
    if let Some(tls) = &config.tls {
        let files = tls.files();
        services.spawn("certificate", |stop| files.watch(stop));
    }
    let listener = Listening { listener, tls: config.tls };
    let api = Api { listener, app, loops, limits: config.limits };
    services.spawn("api", |stop| api.run(stop));
    let Addresses { api, operators } = addresses;
    info!(address = %api, "api open");
    info!(address = %operators, "operators' calls open");
    Ok(addresses)
}

/// The API, and the loops that make its calls.
struct Api {
    listener: Listening,
    app: Arc<App>,
    loops: JoinSet<()>,
    limits: HttpLimits,
}

/// A loop of the API ended although callers can still come.
#[derive(Debug, thiserror::Error)]
#[error("a loop of the api ended by itself")]
struct LoopEnded;

impl Api {
    async fn run(mut self, stop: CancellationToken) -> Result<(), BoxError> {
        let router = api::router(self.app);
        let drain = GRACE.saturating_sub(GRACE_RESERVE);
        // The loops outlive the listener: what was let in is answered.
        tokio::select! {
            served = serve::http(self.listener, router, self.limits, drain, stop) => served?,
            _ = self.loops.join_next() => return Err(LoopEnded.into()),
        }
        self.loops.shutdown().await;
        Ok(())
    }
}

/// The shared state, and the loops that its batchers feed.
pub(crate) struct Assembled {
    pub(crate) app: Arc<App>,
    pub(crate) loops: JoinSet<()>,
}

/// What the API uses of the process around it.
#[derive(Default)]
pub(crate) struct Around {
    /// Notified by whoever finds that Redis forgot the queues.
    pub(crate) declare_again: Arc<Notify>,
    /// Where spans begin.
    pub(crate) traces: Traces,
    /// Cancelled when the process stops.
    pub(crate) stop: CancellationToken,
}

/// Builds the shared state and starts its loops.
pub(crate) fn assemble(
    redis: Redis,
    config: &Config,
    around: Around,
) -> Result<Assembled, BoxError> {
    let Around { declare_again, traces, stop } = around;
    // Callers wait as long as one call may take, and a moment more: its own end is what tells that Redis is silent. A lost
    // connection is noticed sooner, which leaves time for a repeat.
    let patience = redis.command_timeout() + MOMENT;
    let clock = Arc::new(Clock::new(Arc::clone(&declare_again)));
    let who = Who::new(config.keys.clone(), Arc::clone(&clock))?;
    let store = Store { redis: redis.clone(), patience, clock, declare_again };
    let mut loops = JoinSet::new();
    let queues = config.queues.iter().map(|(name, settings)| {
        Ok((name.clone(), Arc::new(queue(name, settings, &store, &mut loops)?)))
    });
    let queues = queues.collect::<Result<_, OpenError>>()?;
    let longest = config.queues.values().map(|queue| size(queue.body_limit)).max().unwrap_or(0);
    let answers = config.queues.values().map(|queue| size(queue.answer_limit)).max().unwrap_or(0);
    let app = App {
        queues,
        store,
        ended: Ended::default(),
        holders: Holders::default(),
        memory: Arc::new(Semaphore::new(BODIES.max(longest))),
        large: Large::open(&redis, answers)?,
        batched: Arc::new(Semaphore::new(BATCHED)),
        wait_max: config.wait_max,
        who,
        tenants: config.tenants.clone(),
        acts: Acts::default(),
        traces,
        stop,
    };
    let shards = app.queues.values().flat_map(|queue| &queue.shards);
    let channels = shards.map(|shard| shard.keys.ended.clone()).collect();
    let subscriber = Subscriber::open(&redis, channels)?;
    loops.spawn(wait::listen(subscriber, app.ended.clone()));
    Ok(Assembled { app: Arc::new(app), loops })
}

fn queue(
    name: &QueueName,
    settings: &QueueSettings,
    store: &Store,
    loops: &mut JoinSet<()>,
) -> Result<Queue, OpenError> {
    let (policy, level) = (settings.policy(), settings.level());
    let shard = |number| shard(ShardKeys::new(name, number), (&policy, level), store, loops);
    let shards = (0..policy.shards.get()).map(shard).collect::<Result<_, _>>()?;
    Ok(Queue {
        name: name.clone(),
        timeout_default: settings.times.timeout_default,
        allowed: settings.allowed.clone(),
        body_limit: size(settings.body_limit),
        shards,
        policy,
    })
}

fn shard(
    keys: ShardKeys,
    (policy, level): (&QueuePolicy, Option<Level>),
    store: &Store,
    loops: &mut JoinSet<()>,
) -> Result<Shard, OpenError> {
    let keys = Arc::new(keys);
    let opened = level.map(|level| durable::open(store, &keys, level)).transpose()?;
    let confirmer = opened.map(|(confirmer, confirming)| {
        loops.spawn(confirming.run());
        confirmer
    });
    let bounds =
        |waiting, patience| Bounds { items: MAX_ITEMS, bytes: MAX_BYTES, waiting, patience };
    // A submit that is waited for is answered after its look, and after one before it at whether it can be.
    let waits = confirmer.as_ref().map(|confirmer| confirmer.patience() + store.patience);
    let patience = store.patience + waits.unwrap_or_default();
    let (submits, inbox) = batcher::channel(bounds(SUBMITS_WAITING, patience));
    let admission = Admission {
        store: store.clone(),
        shard: Arc::clone(&keys),
        policy: policy.clone(),
        kept: confirmer.clone().map(Kept::new),
        spoiled: Seldom::new(TELL_EVERY),
    };
    loops.spawn(admission.run(inbox));
    let (lookups, inbox) = batcher::channel(bounds(LOOKUPS_WAITING, store.patience));
    let lookup = Lookup { store: store.clone(), shard: Arc::clone(&keys) };
    loops.spawn(lookup.run(inbox));
    Ok(Shard { keys, submits, lookups, confirmer })
}

/// A limit of the settings as a length in memory.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
