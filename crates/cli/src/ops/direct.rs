//! The same straight at Redis. The audit line goes to stderr: there is no log of ours here.

use std::time::Duration;

use holdfast_core::model::{Fence, Identity, QueueName};
use holdfast_core::operate::{
    self, ActError, Acted, Audit, DeadFilter, DeadLetter, DeadPage, LeaseRow, Overruled, Queue,
    QueueRow, RedriveAsk, Redriven, Rows, Target, Why, WorkerRow,
};
use holdfast_core::script::Override;

use crate::failure::Failure;
use crate::notes::Notes;
use crate::store::Store;

/// How long one call may go on running dead letters again, before it tells how far it came.
const REDRIVE_CALL: Duration = Duration::from_secs(5);

/// Redis, and who asks.
pub(crate) struct Direct {
    pub(super) store: Store,
    pub(super) who: String,
}

impl Direct {
    pub(super) async fn queue_rows(
        &self,
        only: Option<&QueueName>,
    ) -> Result<Vec<QueueRow>, Failure> {
        let queues = self.store.queues(only).await?;
        self.store.told(operate::queue_rows(&self.store.redis, &queues).await)
    }

    pub(super) async fn lease_rows(
        &self,
        only: Option<&QueueName>,
        limit: usize,
    ) -> Result<Rows<LeaseRow>, Failure> {
        let queues = self.store.queues(only).await?;
        self.store.told(operate::lease_rows(&self.store.redis, &queues, limit).await)
    }

    pub(super) async fn worker_rows(&self) -> Result<Vec<WorkerRow>, Failure> {
        let queues = self.store.queues(None).await?;
        self.store.told(operate::worker_rows(&self.store.redis, &queues).await)
    }

    pub(super) async fn dead_rows(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<DeadPage, Failure> {
        let queue = self.store.queue(queue).await?;
        let redis = &self.store.redis;
        self.store.acted(operate::dead_rows(redis, &queue, filter, cursor, limit).await)
    }

    pub(super) async fn dead_letter(
        &self,
        queue: &QueueName,
        identity: &Identity,
    ) -> Result<DeadLetter, Failure> {
        let queue = self.store.queue(queue).await?;
        let target = Target { queue: &queue, identity };
        self.store.acted(operate::dead_letter(&self.store.redis, target).await)
    }

    pub(super) async fn redrive(
        &self,
        queue: &QueueName,
        ask: &RedriveAsk,
    ) -> Result<Redriven, Failure> {
        let queue = self.store.queue(queue).await?;
        let redis = &self.store.redis;
        if ask.dry_run {
            return self.store.acted(operate::count(redis, &queue, ask).await);
        }
        let done = operate::redrive(redis, &queue, ask, REDRIVE_CALL).await;
        self.note(&Audit::of_redrive(&self.who, &queue, ask, &done));
        self.store.acted(done)
    }

    pub(super) async fn why(&self, queue: &QueueName, who: &Identity) -> Result<Why, Failure> {
        let queue = self.store.queue(queue).await?;
        self.store.acted(operate::why(&self.store.redis, &queue, who).await)
    }

    pub(super) async fn overrule(
        &self,
        queue: &QueueName,
        word: Override,
        (seen, dry_run): (Option<u64>, bool),
    ) -> Result<Overruled, Failure> {
        let queue = self.store.queue(queue).await?;
        let done = operate::overrule(&self.store.redis, &queue, word, seen, dry_run).await;
        if !dry_run {
            self.note(&Audit::of_word(&self.who, &queue, word, &done));
        }
        self.store.acted(done)
    }

    pub(super) async fn retry_now(
        &self,
        queue: &QueueName,
        identity: &Identity,
        (due, dry_run): (Option<u64>, bool),
    ) -> Result<Acted, Failure> {
        let queue = self.store.queue(queue).await?;
        let target = Target { queue: &queue, identity };
        let done = operate::retry_now(&self.store.redis, target, due, dry_run).await;
        self.note_one("retry-now", &queue, identity, &done);
        self.store.acted(done)
    }

    pub(super) async fn release(
        &self,
        queue: &QueueName,
        identity: &Identity,
        (fence, dry_run): (Option<Fence>, bool),
    ) -> Result<Acted, Failure> {
        let queue = self.store.queue(queue).await?;
        let target = Target { queue: &queue, identity };
        let done = operate::release(&self.store.redis, target, fence, dry_run).await;
        self.note_one("release", &queue, identity, &done);
        self.store.acted(done)
    }

    /// The audit line of an action on one request, unless nothing was tried.
    fn note_one(
        &self,
        action: &'static str,
        queue: &Queue,
        identity: &Identity,
        done: &Result<Acted, ActError>,
    ) {
        if !done.as_ref().is_ok_and(|done| done.outcome == "dry-run") {
            self.note(&Audit::of_one(&self.who, action, Target { queue, identity }, done));
        }
    }

    fn note(&self, audit: &Audit<'_>) {
        Notes::plain().say(audit);
    }
}
