//! Puts the loops of a worker together.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::{QueueName, Session};
use holdfast_core::rights::Role;
use holdfast_core::script::Register;
use holdfast_core::{Chain, Redis};
use holdfast_runtime::declare::Declaring;
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
use crate::worker::{Worked, Worker};
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
        hand_back: config.hand_back,
    };
    let health = services.health().clone();
    let (redis, session) = (worker.store.usual.clone(), worker.claimer.session());
    services.spawn("declare", |stop| declaring.run(stop));
    services.spawn("cancels", |stop| cancels.run(stop));
    services.spawn("files", |stop| files::run(queues, stop));
    services.spawn("worker", |stop| async move {
        // Nothing is claimed before the server has been looked at and the scripts know the queues' policy.
        let Worked { result, left } = tokio::select! {
            () = stop.cancelled() => Worked { result: Ok(()), left: LAST_WORD },
            () = health.until_ready(PART) => worker.run(stop.clone()).await,
        };
        leave(&redis, session, left).await;
        result
    });
    Ok(())
}

/// How long the end may wait for Redis to take note of it.
const LAST_WORD: Duration = Duration::from_millis(300);

/// Has this worker shown no more. One that can't say so in the time that is left is forgotten as one that was killed.
async fn leave(redis: &Redis, session: Session, left: Duration) {
    if left.is_zero() {
        // Whoever could not hand back in time would not be heard now either.
        return info!("no time is left to tell redis of the end");
    }
    match timeout(LAST_WORD.min(left), Register::Ended(session).run(redis)).await {
        Ok(Ok(_)) => {}
        Ok(Err(err)) => info!(error = %Chain(&err), "redis does not know of the end"),
        Err(_) => info!("redis did not take note of the end in time"),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_runtime::{Environment, Settings, Stop};
    use holdfast_testkit::proxy::evalsha;
    use holdfast_testkit::{Fault, Proxy, RedisServer, When};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn there_is_no_last_word_after_a_hand_back_that_took_all_its_time() {
        let claim = holdfast_core::script::all().into_iter().find(|it| it.name == "claim").unwrap();
        for (delay, words) in [(Duration::ZERO, 1), (Duration::from_millis(1_500), 0)] {
            let redis = RedisServer::start().await;
            let proxy = Proxy::start(redis.port()).await;
            let slow = proxy.inject(Fault::DelayReply(delay), When::Each, evalsha(&claim.sha1));
            let last = proxy.count(|words| words.iter().any(|word| word == b"ended"));
            let text = format!(
                "[redis]\nurl = \"{}\"\n[worker]\ndrain = \"100ms\"\n[queues.q]\ntarget = \"http://127.0.0.1:1\"\n",
                proxy.url()
            );
            let settings = Settings::load(&text, &Environment::default()).unwrap();
            let mut config = Config::read(&settings).unwrap();
            config.hand_back = Duration::from_millis(200);
            let mut services = Services::new();
            let store = services.open_redis(&config.redis).unwrap();
            spawn(&mut services, store, config).unwrap();
            let stop = Stop::default();
            let ends = async {
                slow.wait_matched(1, Duration::from_secs(10)).await;
                stop.drain.cancel();
            };
            let (ended, ()) = tokio::join!(services.run(&stop), ends);
            ended.unwrap();
            assert_eq!(last.matched(), words, "claims are answered {delay:?} late");
        }
    }
}
