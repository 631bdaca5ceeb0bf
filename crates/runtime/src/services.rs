//! The tasks of a process: named, under one token, and none of them may end unnoticed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use holdfast_core::Redis;
use holdfast_core::redis::OpenError;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::redis::Watched;
use crate::settings::{GRACE, RedisSettings, TracesSettings};
use crate::{BoxError, Chain, Health, Traces, ops, traces};

/// What is kept of the grace period for the very end.
const LAST_BREATH: Duration = Duration::from_secs(1);

type Ended = Result<(Id, Result<(), BoxError>), JoinError>;

/// The tasks of a process.
///
/// One that ends, fails or panics ends the process, with its name. On a signal the token is
/// cancelled, and each task ends by itself; the ops port answers until the last of them has.
pub struct Services {
    tasks: JoinSet<Result<(), BoxError>>,
    ops: JoinSet<Result<(), BoxError>>,
    /// What sends spans away. Those of the other tasks come last, so it ends after them.
    traces: JoinSet<Result<(), BoxError>>,
    names: HashMap<Id, &'static str>,
    stop: CancellationToken,
    /// Cancelled once no task is left that could begin a span.
    told: CancellationToken,
    health: Health,
    grace: Duration,
}

/// How somebody asks a process to stop. Clones are the same value.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Cancelled: take nothing new, finish what runs.
    pub drain: CancellationToken,
    /// Cancelled: end at once, whatever runs.
    pub now: CancellationToken,
}

/// Why a process ended other than asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A task that runs for ever did not.
    #[error("{name} ended by itself")]
    Ended {
        /// The task.
        name: &'static str,
    },
    /// A task failed.
    #[error("{name} failed")]
    Failed {
        /// The task.
        name: &'static str,
        /// Why.
        source: BoxError,
    },
    /// A task panicked. What it said is not told: it may quote what a caller sent.
    #[error("{name} panicked")]
    Panicked {
        /// The task.
        name: &'static str,
    },
    /// Tasks did not end in time.
    #[error("not ended within the grace period: {}", names.join(", "))]
    Unfinished {
        /// The tasks.
        names: Vec<&'static str>,
    },
    /// Somebody did not want to wait.
    #[error("told to end at once")]
    AtOnce,
}

impl Services {
    /// No tasks yet.
    pub fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            ops: JoinSet::new(),
            traces: JoinSet::new(),
            names: HashMap::new(),
            stop: CancellationToken::new(),
            told: CancellationToken::new(),
            health: Health::default(),
            grace: GRACE,
        }
    }

    /// Grants the tasks another time to end in than [`GRACE`].
    pub fn grant(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// The health that the ops port tells.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The token that every task ends by.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task that ends when its token is cancelled, and not before.
    pub fn spawn<F, E>(&mut self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let task = task(self.stop.clone());
        let handle = self.tasks.spawn(async { task.await.map_err(Into::into) });
        self.names.insert(handle.id(), name);
    }

    /// Opens Redis: connects for as long as it takes, and tells the ops port whether it answers.
    pub fn open_redis(&mut self, settings: &RedisSettings) -> Result<Redis, OpenError> {
        let redis = Redis::open(settings.into())?;
        let watched = Watched::new(redis.clone());
        let probed = watched.clone();
        self.health.watch("redis", move || probed.probe());
        self.spawn("redis", |stop| async move {
            watched.run(stop).await;
            Ok::<(), Infallible>(())
        });
        Ok(redis)
    }

    /// Opens traces: where spans of `service` begin, and a task that sends them to the collector of
    /// the settings; without one, nothing. `instance` says which of several processes it is.
    pub fn open_traces(
        &mut self,
        settings: &TracesSettings,
        service: &str,
        instance: Option<&str>,
    ) -> Traces {
        let Some(collector) = &settings.endpoint else { return Traces::default() };
        let (traces, exporter) = traces::open(collector, service, instance);
        let told = self.told.clone();
        let handle = self.traces.spawn(async {
            exporter.run(told).await;
            Ok(())
        });
        self.names.insert(handle.id(), "traces");
        let authority = collector.traces().authority().map(ToString::to_string);
        info!(collector = authority, service, "traces open");
        traces
    }

    /// Opens the ops port, health and metrics, on the address that `setting`, a field or a flag, names. Says where it
    /// listens.
    pub async fn open_ops(
        &mut self,
        setting: &'static str,
        address: SocketAddr,
    ) -> Result<SocketAddr, BoxError> {
        let (bound, port) = ops::open(setting, address, self.health.clone()).await?;
        let handle = self.ops.spawn(async { port.run().await.map_err(Into::into) });
        self.names.insert(handle.id(), "ops");
        info!(address = %bound, "ops port open");
        Ok(bound)
    }

    /// Runs until asked to stop, or until a task ends; then stops the rest.
    pub async fn run(mut self, stop: &Stop) -> Result<(), Failure> {
        let first = tokio::select! {
            () = stop.drain.cancelled() => None,
            Some(ended) = self.tasks.join_next_with_id() => Some(self.judge(ended)),
            Some(ended) = self.ops.join_next_with_id() => Some(self.judge(ended)),
            Some(ended) = self.traces.join_next_with_id() => Some(self.judge(ended)),
        };
        if let Some(failure) = &first {
            error!(error = %Chain(failure), "ending");
        }
        info!("draining");
        self.health.drain();
        self.stop.cancel();
        let rest = tokio::select! {
            biased;
            () = stop.now.cancelled() => Err(Failure::AtOnce),
            rest = self.drain() => rest,
        };
        match (first, rest) {
            (Some(first), _) => Err(first),
            (None, rest) => rest,
        }
    }

    /// Joins what is left: the tasks, then what tells of them, the ops port last.
    async fn drain(&mut self) -> Result<(), Failure> {
        let limit = Instant::now() + self.grace.saturating_sub(LAST_BREATH);
        let mut failures = Vec::new();
        let joined = timeout_at(limit, async {
            while let Some(ended) = self.tasks.join_next_with_id().await {
                let name = self.forget(&ended);
                if let Some(failure) = failure(name, ended) {
                    error!(error = %Chain(&failure), "failed while draining");
                    failures.push(failure);
                }
            }
        });
        if joined.await.is_err() {
            failures.push(Failure::Unfinished { names: self.unfinished() });
        }
        self.told.cancel();
        // Spans that find no time any more are lost, which is no failure.
        let _ = timeout_at(limit, async { while self.traces.join_next().await.is_some() {} }).await;
        self.traces.shutdown().await;
        self.ops.shutdown().await;
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// Why a task that ended early is a failure.
    fn judge(&mut self, ended: Ended) -> Failure {
        let name = self.forget(&ended);
        failure(name, ended).unwrap_or(Failure::Ended { name })
    }

    fn forget(&mut self, ended: &Ended) -> &'static str {
        let id = match ended {
            Ok((id, _)) => *id,
            Err(err) => err.id(),
        };
        // Every task has a name, from `spawn` on.
        self.names.remove(&id).unwrap_or("a task")
    }

    fn unfinished(&self) -> Vec<&'static str> {
        let is_task = |name: &&'static str| !["ops", "traces"].contains(name);
        let mut names: Vec<_> = self.names.values().copied().filter(is_task).collect();
        names.sort_unstable();
        names
    }
}

impl Default for Services {
    fn default() -> Self {
        Self::new()
    }
}

fn failure(name: &'static str, ended: Ended) -> Option<Failure> {
    match ended {
        Ok((_, Ok(()))) => None,
        Ok((_, Err(source))) => Some(Failure::Failed { name, source }),
        Err(_) => Some(Failure::Panicked { name }),
    }
}

#[cfg(test)]
mod tests;
