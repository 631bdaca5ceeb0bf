//! Gives back what dead workers held, promotes what is due, ends what is late, sweeps what is over.
//!
//! Stateless: any number of replicas over any set of queues; two on one shard share the work.
//!
//! # Reading order
//!
//! [`Config`], then [`Reclaimer`]: a pass over every shard each `reclaimer.every`; `queues` finds the
//! shards, `upkeep` does the work of one, `gauges` tells how much is where.

mod config;
mod gauges;
mod queues;
mod reclaimer;
mod upkeep;

use holdfast_core::rights::Role;
use holdfast_runtime::declare::Declaring;
use holdfast_runtime::{BoxError, Services};

pub use config::Config;
pub use reclaimer::Reclaimer;

/// The part of its health that says whether the queues are declared.
const PART: &str = "queues";

/// Opens Redis and the ops port, and starts the passes.
pub async fn start(config: Config) -> Result<Services, BoxError> {
    let mut services = Services::new();
    let redis = services.open_redis(&config.redis)?;
    services.open_ops("reclaimer.ops_listen", config.ops_listen).await?;
    declare(&mut services, &redis, &config);
    spawn(&mut services, redis, config);
    Ok(services)
}

fn declare(services: &mut Services, redis: &holdfast_core::Redis, config: &Config) {
    let health = services.health().part(PART);
    let declaring = Declaring::new(Role::Reclaimer, redis.clone(), &config.declared, health);
    services.spawn("declare", |stop| declaring.run(stop));
}

/// Starts the passes over a Redis that is open already, once its queues are declared.
pub fn spawn(services: &mut Services, redis: holdfast_core::Redis, config: Config) {
    let (health, reclaimer) = (services.health().clone(), Reclaimer::new(redis, config));
    services.spawn("reclaimer", |stop| async move {
        // Nothing is touched before it is known that its keys are of a schema that this version knows.
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = health.until_ready(PART) => {}
        }
        reclaimer.run(stop).await
    });
}
