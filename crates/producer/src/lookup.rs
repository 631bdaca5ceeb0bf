//! Looks at what is kept, as many keys of a shard in one call as are asked for together.
//!
//! A record and what was submitted may be large: each of those travels alone.

use std::sync::Arc;

use holdfast_core::Chain;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Home, Key, Request};
use holdfast_core::script::{Found, Read, Requests};
use serde_json::value::RawValue;
use tracing::warn;

use crate::app::{App, Named, Store};
use crate::batcher::{Inbox, Job, Unanswered};
use crate::body;
use crate::item::MAX_METADATA;
use crate::problem::Problem;
use crate::store::{Lost, crowded, patiently, unreachable_store};

/// What a stored request takes beside its body: names, and metadata that may be escaped twice over.
const MOST_BESIDE_A_BODY: usize = 8 * MAX_METADATA;

/// What is kept under a key, if that could be found out.
pub(crate) type Looked = Result<Option<Found>, Away>;

/// Redis did not answer; the log says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away;

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
        let read = Read { shard: &self.shard, keys: &keys, whole: false, tick: false };
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
                vec![Err(Away); group.len()]
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
    /// Looks at a request: its state, and of its record outcome and end.
    pub(crate) async fn look(&self, named: &Named) -> Result<Option<Found>, Problem> {
        let looked = named.shard().lookups.ask(named.key, size_of::<Key>()).await;
        let found = match looked {
            Ok(Ok(found)) => found,
            Err(Unanswered::Crowded) => return Err(crowded()),
            Ok(Err(Away)) | Err(_) => return Err(unreachable_store()),
        };
        Ok(found.filter(|found| is_of(found, named)))
    }

    /// Looks at a request with its whole record, which may be large: so it travels alone.
    pub(crate) async fn look_whole(&self, named: &Named) -> Result<Option<Found>, Problem> {
        let shard = named.shard();
        let keys = [named.key];
        let read = Read { shard: &shard.keys, keys: &keys, whole: true, tick: false };
        let call = || read.run(&self.store.redis);
        match patiently(self.store.patience, call).await {
            Ok(answered) => {
                let found = answered.answer.into_iter().next().flatten();
                Ok(found.filter(|found| is_of(found, named)))
            }
            Err(lost) => {
                let queue = &named.queue.name;
                match &lost.error {
                    Some(error) => warn!(%queue, error = %Chain(error), "a record was not read"),
                    None => warn!(%queue, "a record was not read in time"),
                }
                Err(unreachable_store())
            }
        }
    }
}

impl App {
    /// The metadata of a request as it was submitted; none: there was none, or the request has finished, and what was
    /// submitted is gone.
    pub(crate) async fn metadata(
        &self,
        named: &Named,
        found: &Found,
    ) -> Result<Option<Box<RawValue>>, Problem> {
        if found.home == Some(Home::Finished) {
            return Ok(None);
        }
        // Redis has no way to read a part of a field: the body comes along, and takes its share of the memory.
        let size = found.ticket.body_size as usize + MOST_BESIDE_A_BODY;
        let _share = body::take(&self.memory, size)?;
        let keys = [named.key];
        let requests = Requests { shard: &named.shard().keys, keys: &keys };
        let call = || requests.run(&self.store.redis);
        let answered = patiently(self.store.patience, call).await.map_err(|lost| {
            let queue = &named.queue.name;
            match &lost.error {
                Some(error) => warn!(%queue, error = %Chain(error), "metadata was not read"),
                None => warn!(%queue, "metadata was not read in time"),
            }
            unreachable_store()
        })?;
        let packed = answered.answer.into_iter().next().flatten();
        // What is damaged has none: its status is told all the same.
        let request = packed.and_then(|packed| Request::unpack(packed).ok());
        let metadata = request.and_then(|request| request.envelope.metadata);
        Ok(metadata.and_then(|text| RawValue::from_string(text).ok()))
    }
}

/// Whether what is kept under the key is the caller's: a key is a hash, so this is asked each time.
/// A ticket that lost its names is known by its key alone.
fn is_of(found: &Found, named: &Named) -> bool {
    found.ticket.identity.as_ref().is_none_or(|identity| *identity == named.identity)
}
