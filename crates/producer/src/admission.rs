//! Takes submits into a shard, as many in one call as came together, and tells each what became of it.

use std::sync::Arc;

use holdfast_core::Chain;
use holdfast_core::error::Refusal;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Digest, Generation, Home, Key};
use holdfast_core::redis::{Missing, Trouble};
use holdfast_core::script::{
    Found, FullOf, LimitOf, Policy, QueuePolicy, Read, Submission, Submit, SubmitReply,
};
use holdfast_runtime::Seldom;
use holdfast_runtime::traces::Span;
use tokio::sync::OwnedSemaphorePermit;
use tracing::{error, warn};

use crate::app::Store;
use crate::batcher::{Inbox, Job};
use crate::durable::Kept;
use crate::status::Seen;
use crate::store::{Lost, Unread, patiently};
use crate::traced;

/// A submit on its way.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// What the script takes.
    pub(crate) submission: Submission,
    /// The generation it is to be.
    pub(crate) generation: Generation,
    /// What "the same bytes" means for it.
    pub(crate) digest: Digest,
    /// Its share of the memory for bodies, held until the last copy is answered.
    pub(crate) _share: OwnedSemaphorePermit,
    /// Its place among the items of batches, held as long.
    pub(crate) place: Option<OwnedSemaphorePermit>,
    /// What is told of it to a collector of traces.
    pub(crate) span: Option<Span>,
}

/// What became of a submit.
#[derive(Debug)]
pub(crate) enum Told {
    /// A new request.
    Accepted(Seen),
    /// A request that was there before, with the same bytes.
    Replayed(Seen),
    /// A request that was there before, with other bytes.
    Reused(Seen),
    /// The queue holds up to its limit of these.
    Full(FullOf),
    /// The tenant is at a limit of its own.
    Over(LimitOf),
    /// The deadline has passed.
    Late,
    /// A counter of the queue was overwritten in Redis: nothing new is taken in by it.
    Spoiled,
    /// Redis has no memory left.
    StoreFull,
    /// Redis takes no writes.
    StoreReadOnly,
    /// Redis denies us a right.
    StoreDenied {
        /// Whether something may have been stored by then.
        may_have_run: bool,
    },
    /// Redis cannot give the durability of the queue.
    Unsafe(Missing),
    /// Redis was not asked, or did nothing.
    Unreachable,
    /// Redis was asked, and what it did is not known.
    Unknown,
}

/// A submit, and who waits for what becomes of it.
pub(crate) type Waiting = Job<Candidate, Told>;

/// The submits of one shard.
pub(crate) struct Admission {
    pub(crate) store: Store,
    pub(crate) shard: Arc<ShardKeys>,
    pub(crate) policy: QueuePolicy,
    /// How those are told whose request is kept, if the queue asks for more than Redis gives by itself.
    pub(crate) kept: Option<Kept>,
    /// Tells of a counter that was overwritten.
    pub(crate) spoiled: Seldom,
}

impl Admission {
    /// Admits until no caller can come any more.
    pub(crate) async fn run(mut self, mut inbox: Inbox<Candidate, Told>) {
        while inbox.wait().await {
            // While Redis is away nothing is sent that could run later, when its caller has long heard "no".
            if self.is_away().await {
                tell_all(inbox.take(), || Told::Unreachable);
            } else {
                self.admit(inbox.take()).await;
            }
        }
        if let Some(kept) = self.kept {
            kept.finish().await;
        }
    }

    async fn admit(&mut self, group: Vec<Waiting>) {
        if group.is_empty() {
            return;
        }
        let Some(group) = self.safe_to_store(group).await else { return };
        let (undeclared, after_unanswered) = self.submit(group, false).await;
        if undeclared.is_empty() {
            return;
        }
        // Redis forgot the queue's policy, or never knew it.
        let (undeclared, after_unanswered) = match self.declare().await {
            true => self.submit(undeclared, after_unanswered).await,
            false => (undeclared, after_unanswered),
        };
        // A copy that nobody answered may run once the queue is declared.
        let told = || if after_unanswered { Told::Unknown } else { Told::Unreachable };
        tell_all(undeclared, told);
    }

    /// Gives the group back if what is stored now can be made as safe as the queue asks; else tells it so.
    async fn safe_to_store(&mut self, group: Vec<Waiting>) -> Option<Vec<Waiting>> {
        let Some(kept) = &self.kept else { return Some(group) };
        match kept.missing().await {
            Ok(None) => return Some(group),
            Ok(Some(missing)) => {
                self.tell_by_id_rule(group, || Told::Unsafe(missing), unstored).await;
            }
            Err(lost) => tell_all(group, || unstored(&lost)),
        }
        None
    }

    /// Sends a group, and gives back those whose queue Redis does not know, and whether a copy stayed unanswered; `before`:
    /// whether one did in an earlier round.
    async fn submit(&mut self, group: Vec<Waiting>, before: bool) -> (Vec<Waiting>, bool) {
        let items: Vec<Submission> = group.iter().map(|job| job.item.submission.clone()).collect();
        let submit = Submit { shard: &self.shard, items: &items };
        let call = || submit.run(&self.store.redis);
        match patiently(self.store.patience, call).await {
            Ok(answered) => {
                if let Some(SubmitReply::Accepted(ticket)) = answered.answer.first() {
                    self.store.clock.note(ticket.submitted_at, answered.elapsed);
                }
                let after_unanswered = before || answered.after_unanswered;
                (self.tell(group, answered.answer, after_unanswered), after_unanswered)
            }
            Err(mut lost) => {
                lost.may_have_run |= before;
                let may_have_run = lost.may_have_run;
                self.refuse(group, &lost).await;
                (Vec::new(), may_have_run)
            }
        }
    }

    /// Whether Redis is known to be away, and still is.
    async fn is_away(&self) -> bool {
        if self.store.redis.trouble() != Some(Trouble::Unreachable) {
            return false;
        }
        let read = Read { shard: &self.shard, keys: &[], whole: 0, tick: false };
        let call = || read.run(&self.store.redis);
        patiently(self.store.patience, call).await.is_err_and(|lost| lost.may_have_run)
    }

    async fn declare(&self) -> bool {
        self.store.declare_again.notify_one();
        let policy = Policy { shard: &self.shard, policy: &self.policy, write: true };
        let call = || policy.run(&self.store.redis);
        patiently(self.store.patience, call).await.is_ok()
    }

    /// Tells a group whose call came to nothing, or to nothing known.
    async fn refuse(&mut self, group: Vec<Waiting>, lost: &Lost) {
        let (queue, submits) = (&self.shard.queue, group.len());
        match &lost.error {
            Some(error) => warn!(%queue, submits, error = %Chain(error), "submits failed"),
            None => warn!(%queue, submits, "submits not answered in time"),
        }
        match lost.error.as_ref().and_then(|error| error.refusal()) {
            Some(Refusal::OutOfMemory) if lost.may_have_run => {
                self.tell_by_id_rule(group, || Told::Unknown, |_| Told::Unknown).await;
            }
            Some(Refusal::OutOfMemory) => {
                self.tell_by_id_rule(group, || Told::StoreFull, unstored).await;
            }
            Some(Refusal::Denied) => {
                let may_have_run = lost.may_have_run;
                tell_all(group, || Told::StoreDenied { may_have_run });
            }
            _ if lost.may_have_run => tell_all(group, || Told::Unknown),
            Some(Refusal::ReadOnly) => tell_all(group, || Told::StoreReadOnly),
            _ => tell_all(group, || Told::Unreachable),
        }
    }

    /// Redis takes nothing in, but a repeat of what it holds is still told so; the others are told `not_kept`, and all of
    /// them `unread` if Redis does not say what it holds.
    async fn tell_by_id_rule(
        &mut self,
        group: Vec<Waiting>,
        not_kept: impl Fn() -> Told,
        unread: impl Fn(&Lost) -> Told,
    ) {
        let keys: Vec<Key> = group.iter().map(|job| job.item.submission.key()).collect();
        let read = Read { shard: &self.shard, keys: &keys, whole: 0, tick: false };
        let call = || read.run(&self.store.redis);
        let kept = match patiently(self.store.patience, call).await {
            Ok(kept) => kept,
            Err(lost) => return tell_all(group, || unread(&lost)),
        };
        let told = group.into_iter().zip(kept.answer).map(|(job, found)| {
            let told = match found {
                // What is in no home is no request: `submit` will take it in.
                None | Some(Found { home: None, .. }) => not_kept(),
                Some(found) if found.ticket.digest == job.item.digest => {
                    known(&job.item, Seen::from(found))
                }
                Some(found) => Told::Reused(Seen::from(found)),
            };
            (job, told)
        });
        let told = told.collect();
        self.answer(told);
    }

    /// Tells each caller its reply, and gives back those whose queue Redis does not know.
    fn tell(
        &mut self,
        group: Vec<Waiting>,
        replies: Vec<SubmitReply>,
        after_unanswered: bool,
    ) -> Vec<Waiting> {
        if replies.contains(&SubmitReply::Spoiled)
            && let Some(held_back) = self.spoiled.now()
        {
            let (queue, shard) = (&self.shard.queue, self.shard.shard);
            error!(%queue, shard, held_back, "a counter holds no number: holdfastctl doctor tells which");
        }
        let (mut all, mut undeclared) = (Vec::with_capacity(group.len()), Vec::new());
        for (job, reply) in group.into_iter().zip(replies) {
            match told(&job.item, reply, after_unanswered) {
                Some(told) => all.push((job, told)),
                None => undeclared.push(job),
            }
        }
        self.answer(all);
        undeclared
    }

    fn answer(&mut self, group: Vec<(Waiting, Told)>) {
        if let Some(kept) = &mut self.kept {
            return kept.tell(group);
        }
        for (job, told) in group {
            answer(job, told);
        }
    }
}

/// What is told of a submit that was not sent, because a look before it came to nothing.
fn unstored(lost: &Lost) -> Told {
    match lost.unread() {
        Unread::Unanswered | Unread::Foreign => Told::Unreachable,
        Unread::ReadOnly => Told::StoreReadOnly,
        Unread::Denied => Told::StoreDenied { may_have_run: false },
    }
}

/// Tells a caller what became of a submit, and whoever follows its trace.
pub(crate) fn answer(mut job: Waiting, told: Told) {
    if let Some(span) = job.item.span.take() {
        traced::end(span, &told);
    }
    job.answer(told);
}

/// What a reply says; none: Redis does not know the queue.
fn told(candidate: &Candidate, reply: SubmitReply, after_unanswered: bool) -> Option<Told> {
    Some(match reply {
        SubmitReply::Accepted(ticket) => {
            let waits = ticket.not_before > ticket.submitted_at;
            let home = if waits { Home::Delayed } else { Home::Pending };
            Told::Accepted(Seen::at(Some(home), ticket))
        }
        SubmitReply::Known(home, ticket) => known(candidate, Seen::at(home, ticket)),
        SubmitReply::Reused(home, ticket) => Told::Reused(Seen::at(home, ticket)),
        // A copy of this very submit may be on its way still: "no" is not final then.
        SubmitReply::Full(_) | SubmitReply::Over(_) | SubmitReply::Late | SubmitReply::Spoiled
            if after_unanswered =>
        {
            Told::Unknown
        }
        SubmitReply::Full(what) => Told::Full(what),
        SubmitReply::Over(limit) => Told::Over(limit),
        SubmitReply::Late => Told::Late,
        SubmitReply::Spoiled => Told::Spoiled,
        SubmitReply::Undeclared => return None,
    })
}

/// What is kept under the id with the same bytes: ours, when a copy of this call did it.
fn known(candidate: &Candidate, seen: Seen) -> Told {
    if seen.ticket.generation == candidate.generation {
        Told::Accepted(seen)
    } else {
        Told::Replayed(seen)
    }
}

fn tell_all(group: Vec<Waiting>, told: impl Fn() -> Told) {
    for job in group {
        answer(job, told());
    }
}

#[cfg(test)]
mod tests;
