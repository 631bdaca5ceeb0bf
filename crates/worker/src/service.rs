//! Puts the loops of a worker together.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{QueueName, Session};
use holdfast_core::rights::Role;
use holdfast_core::script::Register;
use holdfast_core::{Chain, Redis};
use holdfast_runtime::declare::Declaring;
use holdfast_runtime::settings::{GRACE, GRACE_RESERVE};
use holdfast_runtime::{BoxError, Services};
use tokio::time::timeout;
use tracing::info;

use crate::cancels::Cancels;
use crate::claimer::Claimer;
use crate::held::Held;
use crate::queue::{self, Queue, Shard};
use crate::shown::Shown;
use crate::slots::Share;
use crate::store::Store;
use crate::worker::Worker;
use crate::{Config, files};

/// The part of the process's health that is not ready until the queues are declared.
const PART: &str = "queues";

/// A worker process: Redis, the ops port, and the loops.
pub async fn start(config: Config) -> Result<Services, BoxError> {
    let mut services = Services::new();
    let redis = services.open_redis(&config.redis)?;
    services.open_ops("worker.ops_listen", config.ops_listen).await?;
    spawn(&mut services, redis, config)?;
    Ok(services)
}

/// Adds the loops of a worker to a process whose Redis is open.
pub fn spawn(services: &mut Services, redis: Redis, config: Config) -> Result<(), BoxError> {
    let traces = services.open_traces(&config.traces, "holdfast-worker", Some(&config.name));
    let open = |config| Queue::open(config, traces.clone()).map(Arc::new);
    let queues = config.queues.iter().map(open);
    let queues: Arc<[Arc<Queue>]> = queues.collect::<Result<Vec<_>, _>>()?.into();
    let shards: Arc<[Shard]> = queue::shards(&config.queues).into();
    let names: Vec<QueueName> = config.queues.iter().map(|queue| queue.name.clone()).collect();
    let held = Held::new(names.clone(), shards.iter().map(|shard| shard.queue).collect());
    let store = Store::open(redis.clone())?;
    let claimer = Arc::new(Claimer::new(
        store.clone(),
        config.lease,
        Arc::clone(&held),
        Arc::clone(&queues),
        Arc::clone(&shards),
    )?);
    let cancels = Cancels::open(&redis, &shards, Arc::clone(&held))?;
    let shares: Vec<Share> = config.queues.iter().map(|queue| queue.share).collect();
    let slots = shares.iter().map(|share| share.slots).sum();
    let (shown, told) = Shown::new(&config.name, slots, names);
    let part = services.health().part(PART);
    let declaring = Declaring::new(Role::Worker, redis, &config.declared, part)
        .with_worker(claimer.session(), told);
    let worker = Worker {
        store,
        claimer,
        held,
        queues: Arc::clone(&queues),
        shards,
        shares,
        shown,
        renew: config.renew,
        renew_on: config.renew_on,
        drain: config.drain,
        hand_back: hand_back(config.drain),
    };
    let health = services.health().clone();
    let (redis, session) = (worker.store.usual.clone(), worker.claimer.session());
    services.spawn("declare", |stop| declaring.run(stop));
    services.spawn("cancels", |stop| cancels.run(stop));
    services.spawn("files", |stop| files::run(queues, stop));
    services.spawn("worker", |stop| async move {
        // Nothing is claimed before the server has been looked at and the scripts know the queues' policy.
        let worked = tokio::select! {
            () = stop.cancelled() => Ok(()),
            () = health.until_ready(PART) => worker.run(stop.clone()).await,
        };
        leave(&redis, session).await;
        worked
    });
    Ok(())
}

/// How long the end may wait for Redis to take note of it.
const LAST_WORD: Duration = Duration::from_millis(300);

/// Has this worker shown no more. One that can't say so is forgotten as one that was killed.
async fn leave(redis: &Redis, session: Session) {
    match timeout(LAST_WORD, Register::Ended(session).run(redis)).await {
        Ok(Ok(_)) => {}
        Ok(Err(err)) => info!(error = %Chain(&err), "redis does not know of the end"),
        Err(_) => info!("redis did not take note of the end in time"),
    }
}

/// What the grace period leaves after the drain for handing back, with time to go.
fn hand_back(drain: Duration) -> Duration {
    let last = GRACE_RESERVE * 2 / 3;
    GRACE.saturating_sub(drain).saturating_sub(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_and_hand_back_end_inside_the_grace_period() {
        for drain in [Duration::ZERO, Duration::from_secs(25), GRACE - GRACE_RESERVE] {
            let rest = GRACE - drain - hand_back(drain);
            let rest = rest - LAST_WORD;
            assert!(rest > Duration::from_secs(1), "the frame keeps a second for itself: {rest:?}");
            assert!(hand_back(drain) > Duration::from_millis(500));
        }
    }
}
