//! The queues that a worker serves, and their shards.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_core::keys::ShardKeys;
use holdfast_core::metrics;
use holdfast_core::model::QueueName;
use holdfast_runtime::Traces;
use holdfast_runtime::reread::Unusable;
use holdfast_runtime::settings::Allowed;
use hyper::Uri;

use crate::gateway::{Gateway, Target};
use crate::slots::Share;

/// A queue as its settings say.
#[derive(Clone, Debug)]
pub(crate) struct QueueConfig {
    pub(crate) name: QueueName,
    /// How many parts it has.
    pub(crate) shards: NonZeroU32,
    /// Where its requests go.
    pub(crate) target: Target,
    /// The path of a request that names none of its own.
    pub(crate) path: String,
    /// What a request may say of its own call.
    pub(crate) allowed: Allowed,
    /// Attempts of a request; none: its deadline bounds them.
    pub(crate) max_attempts: Option<u32>,
    /// Its slots.
    pub(crate) share: Share,
}

/// The files of a queue's target were good when the settings were checked, and are not any more.
#[derive(Debug, thiserror::Error)]
#[error("queues.{queue}")]
pub(crate) struct NoTarget {
    queue: QueueName,
    source: Unusable,
}

/// A queue that is served.
pub(crate) struct Queue {
    pub(crate) name: QueueName,
    pub(crate) gateway: Gateway,
    /// Where a request goes that names no path of its own; none: there is no such address.
    pub(crate) uri: Option<Uri>,
    pub(crate) allowed: Allowed,
    pub(crate) max_attempts: Option<u32>,
    /// Where spans of its attempts begin.
    pub(crate) traces: Traces,
    calls: Mutex<usize>,
}

impl Queue {
    /// Reads the files of its target.
    pub(crate) fn open(config: &QueueConfig, traces: Traces) -> Result<Self, NoTarget> {
        let named = |source| NoTarget { queue: config.name.clone(), source };
        let gateway = Gateway::open(config.target.clone()).map_err(named)?;
        Ok(Self {
            name: config.name.clone(),
            uri: gateway.at(&config.path),
            gateway,
            allowed: config.allowed.clone(),
            max_attempts: config.max_attempts,
            traces,
            calls: Mutex::default(),
        })
    }

    /// Counts a call for as long as the value lives.
    pub(crate) fn call(self: &Arc<Self>) -> Calling {
        self.count(1);
        Calling(Arc::clone(self))
    }

    /// The gauge is set under the lock, or an older count could be the last to be told.
    fn count(&self, by: isize) {
        // A number is whole whatever panicked.
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls = calls.saturating_add_signed(by);
        metrics::in_flight(self.name.as_str(), *calls);
    }
}

/// A call under way.
pub(crate) struct Calling(Arc<Queue>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.count(-1);
    }
}

/// A shard of one of the queues.
pub(crate) struct Shard {
    pub(crate) keys: ShardKeys,
    /// Its queue, as a place among the queues of this worker.
    pub(crate) queue: usize,
}

/// The shards of all queues, one queue after another.
pub(crate) fn shards(queues: &[QueueConfig]) -> Vec<Shard> {
    let of = |(queue, config): (usize, &QueueConfig)| {
        let keys = ShardKeys::all(&config.name, config.shards.get());
        keys.into_iter().map(move |keys| Shard { keys, queue }).collect::<Vec<_>>()
    };
    queues.iter().enumerate().flat_map(of).collect()
}
