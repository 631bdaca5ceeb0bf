//! Renews what is held, on a thread, a runtime and a connection of its own: a busy or stuck
//! dispatch must not cost a lease.

use std::future::pending;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use holdfast_core::model::{Fence, Handle};
use holdfast_core::redis::OpenError;
use holdfast_core::script::{MAX_ITEMS, Renew, RenewReply};
use holdfast_core::{Chain, Redis, StoreError, metrics};
use holdfast_runtime::Seldom;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::backoff::Pauses;
use crate::held::Held;
use crate::pause::before_repeat;
use crate::queue::Shard;
use crate::told;

/// Where the leases of a worker are renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenewOn {
    /// On a thread and a runtime of its own, so that nothing the worker does can hold it up.
    #[default]
    OwnThread,
    /// On the worker's runtime and so by its clock: for a worker whose time is simulated.
    WorkersRuntime,
}

/// How the leases of a worker are renewed.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) held: Arc<Held>,
    pub(crate) shards: Arc<[Shard]>,
    pub(crate) lease: Duration,
    /// How often.
    pub(crate) every: Duration,
    pub(crate) on: RenewOn,
}

/// Renewing can't start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// No thread or runtime.
    #[error("no thread to renew leases on")]
    Thread(#[from] io::Error),
    /// No connection.
    #[error("no connection to renew leases on")]
    Redis(#[from] OpenError),
    /// It ended while starting.
    #[error("the thread to renew leases on has ended")]
    Ended,
}

/// Leases are renewed for as long as this lives.
pub(crate) struct Renewing {
    stop: CancellationToken,
    ended: CancellationToken,
    /// Where it runs: one of the two. A task ends with its set.
    thread: Option<JoinHandle<()>>,
    task: JoinSet<()>,
}

impl Renewing {
    /// Starts to renew, over a connection like `redis`.
    pub(crate) async fn start(redis: Redis, plan: Plan) -> Result<Self, StartError> {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let (started, starting) = oneshot::channel();
        let (asked, guard) = (stop.clone(), ended.clone().drop_guard());
        let mut renewing = Self { stop, ended, thread: None, task: JoinSet::new() };
        match plan.on {
            RenewOn::OwnThread => {
                let renew = move || on_thread(&redis, plan, &asked, guard, started);
                let thread = thread::Builder::new().name("renewer".to_owned()).spawn(renew)?;
                renewing.thread = Some(thread);
            }
            RenewOn::WorkersRuntime => {
                let renew = async move { renew(&redis, plan, &asked, guard, started).await };
                renewing.task.spawn(renew);
            }
        }
        starting.await.map_err(|_| StartError::Ended)??;
        Ok(renewing)
    }

    /// Returns when nothing is renewed any more, which does not happen by itself.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // It waits for nothing but this token; a panic has been logged by the hook.
            let _ = thread.join();
        }
    }
}

fn on_thread(
    redis: &Redis,
    plan: Plan,
    stop: &CancellationToken,
    ended: DropGuard,
    started: oneshot::Sender<Result<(), StartError>>,
) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => {
            // Nobody listens any more: then nobody wants the thread.
            let _ = started.send(Err(err.into()));
            return;
        }
    };
    run_on(runtime, renew(redis, plan, stop, ended, started));
}

/// Runs it to its end on a runtime that nobody needs afterwards.
fn run_on(runtime: Runtime, all: impl Future<Output = ()>) {
    runtime.block_on(all);
    // A name that is being looked up can't be interrupted, and whoever joins this thread must not wait for it.
    runtime.shutdown_background();
}

/// Renews until `stop`.
async fn renew(
    redis: &Redis,
    plan: Plan,
    stop: &CancellationToken,
    _ended: DropGuard,
    started: oneshot::Sender<Result<(), StartError>>,
) {
    // Opened here, so that its tasks live on the runtime that this runs on.
    let redis = match redis.another() {
        Ok(redis) => redis,
        Err(err) => {
            let _ = started.send(Err(err.into()));
            return;
        }
    };
    let _ = started.send(Ok(()));
    let mut loops = JoinSet::new();
    for shard in 0..plan.shards.len() {
        loops.spawn(renew_shard(redis.clone(), plan.clone(), shard));
    }
    loops.spawn(fence(plan));
    tokio::select! {
        () = stop.cancelled() => {}
        // None of them ends but by a panic; without one of them no lease is safe.
        _ = loops.join_next() => {}
    }
}

/// Gives up what our own clock says is not ours any more. It looks often enough to be late by a
/// small part of the lease only.
async fn fence(plan: Plan) {
    let often = (plan.lease / 50).clamp(Duration::from_millis(5), Duration::from_millis(250));
    loop {
        plan.held.expire(Instant::now());
        sleep(often).await;
    }
}

/// Renews the leases of one shard, round after round.
async fn renew_shard(redis: Redis, plan: Plan, shard: usize) {
    let warnings = Seldom::new(Duration::from_secs(10));
    let mut doubts = plan.held.doubts();
    let mut planned = Instant::now() + plan.every;
    loop {
        let on_time = tokio::select! {
            () = sleep_until(planned) => true,
            () = doubted(&mut doubts) => false,
        };
        // One round settles all doubts from before it.
        doubts.mark_unchanged();
        let round =
            Round { redis: &redis, plan: &plan, shard, began: Instant::now(), warnings: &warnings };
        let held = &plan.held;
        let owners = if on_time { held.owners(shard) } else { held.running(shard) };
        if on_time && !owners.is_empty() {
            metrics::renew_lag(planned.elapsed());
        }
        let mut whole = true;
        for owners in owners.chunks(MAX_ITEMS) {
            whole &= round.renew(owners).await;
        }
        if whole {
            told::looped("renew");
        }
        if on_time {
            // A round that took too long is not made up for by several at once.
            planned = (planned + plan.every).max(Instant::now());
        }
    }
}

/// Waits until all that runs is to be renewed at once.
async fn doubted(doubts: &mut watch::Receiver<()>) {
    // The other end lives as long as the plan does.
    if doubts.changed().await.is_err() {
        pending().await
    }
}

/// One round of renewals in a shard.
struct Round<'a> {
    redis: &'a Redis,
    plan: &'a Plan,
    shard: usize,
    /// Before it was looked what is held.
    began: Instant,
    warnings: &'a Seldom,
}

impl Round<'_> {
    /// Renews some leases; whether Redis answered. No answer is no lost lease: it is asked again
    /// until the round is over, and then by the next one.
    async fn renew(&self, held: &[(Fence, Handle)]) -> bool {
        let started = Instant::now();
        let Plan { shards, lease, every, .. } = self.plan;
        let renew = Renew { shard: &shards[self.shard].keys, lease: *lease, held };
        let mut pauses = Pauses::default();
        loop {
            let sent = Instant::now();
            match renew.run(self.redis).await {
                Ok(replies) => {
                    for (owner, reply) in held.iter().zip(replies) {
                        self.note(owner, reply, sent);
                    }
                    return true;
                }
                Err(err) => warn_of(&err, self.warnings),
            }
            before_repeat(&mut pauses).await;
            if started.elapsed() >= *every {
                return false;
            }
        }
    }

    fn note(&self, owner: &(Fence, Handle), reply: RenewReply, sent: Instant) {
        let (held, shard) = (&self.plan.held, self.shard);
        let sure_until = |till: Duration| sent + till.min(self.plan.lease);
        match reply {
            RenewReply::Held(till) => held.renewed(shard, owner, sure_until(till)),
            RenewReply::Cancel(till) => {
                held.renewed(shard, owner, sure_until(till));
                held.cancel(shard, owner);
            }
            RenewReply::Lost => held.lost(shard, owner, self.began),
        }
    }
}

fn warn_of(err: &StoreError, warnings: &Seldom) {
    if let Some(held_back) = warnings.now() {
        warn!(error = %Chain(err), held_back, "a renewal failed");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_end_waits_for_no_name_that_is_being_looked_up() {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let (begun, beginning) = mpsc::channel();
        let (answer, answering) = mpsc::channel::<()>();
        let asked = stop.clone();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            run_on(runtime, async move {
                // As a look-up of a name does, it blocks and can't be interrupted.
                tokio::task::spawn_blocking(move || {
                    begun.send(()).unwrap();
                    answering.recv_timeout(Duration::from_secs(20))
                });
                asked.cancelled().await;
            });
        });
        beginning.recv().unwrap();
        let started = std::time::Instant::now();
        drop(Renewing { stop, ended, thread: Some(thread), task: JoinSet::new() });
        let took = started.elapsed();
        drop(answer);
        // The look-up lasts for twenty.
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}
