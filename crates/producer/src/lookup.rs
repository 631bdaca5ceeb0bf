//! Looks at what is kept, as many keys of a shard in one call as are asked for together.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::keys::ShardKeys;
use holdfast_core::model::Key;
use holdfast_core::script::{Found, Length, MAX_BYTES, MAX_ITEMS, Read};
use holdfast_core::{Chain, Redis};
use tracing::warn;

use crate::app::{App, Named, Store};
use crate::batcher::{Inbox, Job, Unanswered};
use crate::problem::Problem;
use crate::store::{Answered, Lost, Unread, crowded, patiently};

/// A record comes along with a look if it has no more bytes than this: so many looks as travel together stay within a call.
const ALONG: usize = MAX_BYTES / MAX_ITEMS;

/// How often a record is read anew that became another one meanwhile.
const TRIES: usize = 4;

/// What is kept under a key, if that could be found out.
pub(crate) type Looked = Result<Option<Found>, Unread>;

/// The lookups of one shard.
pub(crate) struct Lookup {
    pub(crate) store: Store,
    pub(crate) shard: Arc<ShardKeys>,
}

impl Lookup {
    /// Looks until no caller can come any more.
    pub(crate) async fn run(self, mut inbox: Inbox<Key, Looked>) {
        while inbox.wait().await {
            self.look(inbox.take()).await;
        }
    }

    async fn look(&self, group: Vec<Job<Key, Looked>>) {
        if group.is_empty() {
            return;
        }
        let keys: Vec<Key> = group.iter().map(|job| job.item).collect();
        let read = Read { shard: &self.shard, keys: &keys, whole: ALONG, tick: false };
        let call = || read.run(&self.store.redis);
        let found: Vec<Looked> = match patiently(self.store.patience, call).await {
            Ok(answered) => {
                if let Some(found) = answered.answer.iter().flatten().next() {
                    self.store.clock.note(found.now, answered.elapsed);
                }
                answered.answer.into_iter().map(Ok).collect()
            }
            Err(lost) => {
                self.note(&lost);
                vec![Err(lost.unread()); group.len()]
            }
        };
        for (job, found) in group.into_iter().zip(found) {
            job.answer(found);
        }
    }

    fn note(&self, lost: &Lost) {
        let queue = &self.shard.queue;
        match &lost.error {
            Some(error) => warn!(%queue, error = %Chain(error), "a lookup failed"),
            None => warn!(%queue, "a lookup was not answered in time"),
        }
    }
}

impl App {
    /// Looks at a request: its state, and its record if that is small; else of that outcome and end.
    pub(crate) async fn look(&self, named: &Named) -> Result<Option<Found>, Problem> {
        let looked = named.shard().lookups.ask(named.key, size_of::<Key>()).await;
        let found = match looked {
            Ok(Ok(found)) => found,
            Err(Unanswered::Crowded) => return Err(crowded()),
            Ok(Err(unread)) => return Err(unread.problem()),
            Err(_) => return Err(Unread::Unanswered.problem()),
        };
        Ok(found.filter(|found| is_of(found, named)))
    }

    /// Looks at a request with its whole record, which may be large: so it travels alone. A look at one holds up Redis for as
    /// long as copying it takes, so its length is asked first.
    pub(crate) async fn look_whole(&self, named: &Named) -> Result<Option<Found>, Problem> {
        let (usual, patience) = (&self.store.redis, self.store.patience);
        for _ in 0..TRIES {
            let length = Length { shard: &named.shard().keys, key: named.key };
            let length = answered(named, patiently(patience, || length.run(usual)).await)?;
            if length <= MAX_BYTES {
                let mut found = self.read(named, usual, (MAX_BYTES, patience)).await?;
                let Some(first) = &mut found else { return Ok(None) };
                if first.is_whole() || first.record.len() == length {
                    self.large.hold(first)?;
                    return Ok(found);
                }
                // It ended in between, and is longer than that.
                continue;
            }
            let turn = self.large.turn(length).await?;
            let (large, patience) = (&self.large.redis, self.large.redis.command_timeout());
            // No more than there is room for: another generation's may be longer.
            let Some(mut found) = self.read(named, large, (length, patience)).await? else {
                return Ok(None);
            };
            if found.is_whole() {
                turn.hold(&mut found);
                return Ok(Some(found));
            }
        }
        warn!(queue = %named.queue.name, "a record was not read: it is written anew all the time");
        Err(Unread::Unanswered.problem())
    }

    async fn read(
        &self,
        named: &Named,
        redis: &Redis,
        (whole, patience): (usize, Duration),
    ) -> Result<Option<Found>, Problem> {
        let keys = [named.key];
        let read = Read { shard: &named.shard().keys, keys: &keys, whole, tick: false };
        let call = || read.run(redis);
        let found = answered(named, patiently(patience, call).await)?;
        Ok(found.into_iter().next().flatten().filter(|found| is_of(found, named)))
    }
}

/// What came of a call about one record.
fn answered<T>(named: &Named, came: Result<Answered<T>, Lost>) -> Result<T, Problem> {
    came.map(|answered| answered.answer).map_err(|lost| {
        let queue = &named.queue.name;
        match &lost.error {
            Some(error) => warn!(%queue, error = %Chain(error), "a record was not read"),
            None => warn!(%queue, "a record was not read in time"),
        }
        lost.unread().problem()
    })
}

/// Whether what is kept under the key is the caller's: a key is a hash, so this is asked each time.
/// A ticket that lost its names is known by its key alone.
pub(crate) fn is_of(found: &Found, named: &Named) -> bool {
    found.ticket.identity.as_ref().is_none_or(|identity| *identity == named.identity)
}

#[cfg(test)]
mod tests;
