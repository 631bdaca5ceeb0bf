//! Ends attempts: one writer a shard, which sends at once what comes alone and gathers what comes
//! while it waits for an answer; and one beside it for what is large.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::error::Refusal;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Failure, FailureCode};
use holdfast_core::script::{
    Burial, MAX_BYTES, MAX_ITEMS, Settle, SettleItem, SettleKind, SettleReply,
};
use holdfast_core::{Chain, Redis, StoreError};
use holdfast_runtime::Seldom;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::backoff::Pauses;
use crate::held::Claim;
use crate::pause::before_repeat;
use crate::store::{Store, is_large};
use crate::told;

/// An attempt that is to be ended.
struct Job {
    /// Held, and so renewed, until Redis has answered.
    claim: Claim,
    item: SettleItem,
    /// Dropped when it is over.
    _done: oneshot::Sender<()>,
}

/// Where attempts are brought to be ended. Clones share the writers.
#[derive(Clone)]
pub(crate) struct Settler(Arc<[Ways]>);

/// The ways to the writers of a shard: what is large has one of its own.
struct Ways {
    usual: mpsc::Sender<Job>,
    large: mpsc::Sender<Job>,
}

/// A writer of one shard.
pub(crate) struct Writer {
    redis: Redis,
    keys: ShardKeys,
    jobs: mpsc::Receiver<Job>,
    /// Taken from the channel, but left for the next group.
    next: Option<Job>,
    warnings: Seldom,
}

/// The writers of each shard, and the way to them.
pub(crate) fn open(store: &Store, shards: &[ShardKeys]) -> (Settler, Vec<Writer>) {
    let mut writers = Vec::new();
    let mut writer = |redis: &Redis, keys: &ShardKeys| {
        let (sender, jobs) = mpsc::channel(MAX_ITEMS);
        let warnings = Seldom::new(Duration::from_secs(10));
        let (redis, keys) = (redis.clone(), keys.clone());
        writers.push(Writer { redis, keys, jobs, next: None, warnings });
        sender
    };
    let ways = shards
        .iter()
        .map(|keys| Ways { usual: writer(&store.usual, keys), large: writer(&store.large, keys) });
    let settler = Settler(ways.collect());
    (settler, writers)
}

impl Settler {
    /// Ends an attempt, and returns when Redis has answered, or when it is left to lapse.
    pub(crate) fn settle(
        &self,
        claim: Claim,
        kind: SettleKind,
    ) -> impl Future<Output = ()> + Send + '_ {
        claim.settling();
        let (fence, handle) = claim.owner;
        let (done, over) = oneshot::channel();
        let (ways, item) = (&self.0[claim.shard], SettleItem { fence, handle, kind });
        let way = if is_large(item.size()) { &ways.large } else { &ways.usual };
        let job = Job { claim, item, _done: done };
        async move {
            // Handed over once there is a place for it: until then it lies in one place alone.
            if let Ok(place) = way.reserve().await {
                place.send(job);
                // Never sent, only dropped: either way it is over.
                let _ = over.await;
            }
        }
    }
}

impl Writer {
    /// Writes until nobody can bring anything any more.
    pub(crate) async fn run(mut self) {
        while let Some(group) = self.gather().await {
            self.write(group).await;
        }
    }

    /// What has come by now, as much as one call may carry.
    async fn gather(&mut self) -> Option<Vec<Job>> {
        let first = match self.next.take() {
            Some(job) => job,
            None => self.jobs.recv().await?,
        };
        let mut size = first.item.size();
        let mut group = vec![first];
        while group.len() < MAX_ITEMS {
            let Ok(job) = self.jobs.try_recv() else { break };
            size += job.item.size();
            if size > MAX_BYTES {
                self.next = Some(job);
                break;
            }
            group.push(job);
        }
        Some(group)
    }

    /// Ends a group. One that fails as a whole is halved down to the item that fails alone.
    async fn write(&self, group: Vec<Job>) {
        let mut groups = vec![group];
        while let Some(mut group) = groups.pop() {
            let items: Vec<SettleItem> = group.iter().map(|job| job.item.clone()).collect();
            match self.send(&items, &group).await {
                Ok(replies) => self.tell(&items, replies),
                Err(err) if group.len() > 1 => {
                    warn!(error = %Chain(&err), items = group.len(), "a group to settle fails: halving it");
                    let half = group.split_off(group.len() / 2);
                    groups.extend([half, group]);
                }
                Err(err) => self.bury(items, &group, &err).await,
            }
        }
    }

    /// Buries what can't be settled as it was meant. If even that fails, the lease is left to lapse:
    /// its claim is dropped, and with it the renewal.
    async fn bury(&self, mut items: Vec<SettleItem>, group: &[Job], why: &StoreError) {
        for item in &mut items {
            error!(error = %Chain(why), handle = %item.handle, "can't be settled: burying it");
            let failure = Failure { code: FailureCode::Internal, status: 0 };
            let outcome = Burial::Unusable;
            item.kind = SettleKind::Bury { outcome, failure, answer: None };
        }
        match self.send(&items, group).await {
            Ok(replies) => self.tell(&items, replies),
            Err(err) => error!(error = %Chain(&err), "can't be buried: left to lapse"),
        }
    }

    fn tell(&self, items: &[SettleItem], replies: Vec<SettleReply>) {
        for (item, reply) in items.iter().zip(replies) {
            told::settled(&self.keys, item, reply);
        }
    }

    /// Sends a group until Redis has answered, or has said by renewals that nothing of it is ours any
    /// more: then there is no reply. An error: it refuses this very group.
    async fn send(
        &self,
        items: &[SettleItem],
        group: &[Job],
    ) -> Result<Vec<SettleReply>, StoreError> {
        let settle = Settle { shard: &self.keys, items };
        let mut pauses = Pauses::default();
        loop {
            match settle.run(&self.redis).await {
                Ok(replies) => {
                    told::looped("settle");
                    return Ok(replies);
                }
                Err(err) if is_about_the_group(&err) => return Err(err),
                Err(err) => {
                    if let Some(held_back) = self.warnings.now() {
                        warn!(error = %Chain(&err), held_back, "no answer to a settle yet");
                    }
                }
            }
            if group.iter().all(|job| job.claim.is_refused()) {
                warn!(items = items.len(), "no answer to a settle, and its leases are over");
                return Ok(Vec::new());
            }
            before_repeat(&mut pauses).await;
        }
    }
}

/// Whether the same group would only fail again, while another might not.
fn is_about_the_group(err: &StoreError) -> bool {
    match err {
        StoreError::Reply { .. } => true,
        StoreError::Refused { .. } => err.refusal() == Some(Refusal::Other),
        StoreError::Unanswered { .. } | StoreError::Crowded { .. } => false,
    }
}
