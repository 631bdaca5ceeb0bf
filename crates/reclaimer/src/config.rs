//! What a reclaimer takes from the settings.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use holdfast_core::model::QueueName;
use holdfast_runtime::settings::{QueueSettings, RedisSettings};
use holdfast_runtime::{Problems, Settings};

/// The checked settings of a reclaimer.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where Redis is.
    pub redis: RedisSettings,
    /// Where health and metrics are.
    pub ops_listen: SocketAddr,
    /// From one pass to the next.
    pub every: Duration,
    /// The longest lease that this fleet's settings give; a leap of the clock is told by it.
    pub lease: Duration,
    /// The queues to look after; none: all that are registered or declared.
    pub queues: Option<Vec<QueueName>>,
    /// The queues of the settings.
    pub declared: BTreeMap<QueueName, QueueSettings>,
}

impl Config {
    /// Takes its part of the settings, which are checked.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        settings.redis_files().or(Self {
            redis: settings.redis.clone(),
            ops_listen: settings.reclaimer.ops_listen,
            every: settings.reclaimer.every,
            lease: settings.worker.lease,
            queues: settings.reclaimer.queues.clone(),
            declared: settings.queues.clone(),
        })
    }
}
