//! Answers of a queue that asks for more than Redis gives by itself.
//!
//! Each is read anew together with a write, and given once that write is on the disk or the replicas. Those who ask while
//! a wait is under way gather for the next one: one read, one write and one wait for all of them.

mod kept;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::Chain;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::Key;
use holdfast_core::redis::{Durable, Level, Missing, OpenError, Reached};
use holdfast_core::script::{Found, MAX_ITEMS, Read};
use schemars::JsonSchema;
use serde::Serialize;
use tracing::{info, warn};

use crate::app::{App, Named, Store};
use crate::batcher::{self, Batcher, Bounds, Inbox, Job, Unanswered};
use crate::lookup::is_of;
use crate::problem::{Kind, Problem};
use crate::store::{Lost, Unread, crowded, patiently};

pub(crate) use kept::Kept;

/// How many callers may wait for the next call to a shard.
const WAITING: usize = 16_384;

/// How safe an answer was when it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) struct Safety {
    /// The level of the queue.
    asked: &'static str,
    /// The level that was reached.
    reached: &'static str,
    /// The replicas that had it, where they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    replicas: Option<u64>,
}

impl Safety {
    fn of(level: Level, reached: Option<Reached>) -> Self {
        let whole = reached.is_some_and(|reached| reached.whole);
        let replicas = match level {
            Level::Fsynced => None,
            Level::Replicated(_) => reached.map(|reached| reached.replicas),
        };
        Self { asked: word(level), reached: if whole { word(level) } else { PLAIN }, replicas }
    }

    /// Whether it is what the queue asks for.
    pub(crate) fn is_whole(self) -> bool {
        self.asked == self.reached
    }
}

/// What every Redis gives.
const PLAIN: &str = "acknowledged";

fn word(level: Level) -> &'static str {
    match level {
        Level::Fsynced => "fsynced",
        Level::Replicated(_) => "replicated",
    }
}

/// What is kept under some keys, and how safe that is; or why Redis does not say.
pub(crate) type Confirmed = Result<(Vec<Option<Found>>, Safety), Unread>;

/// The waiting looks of one shard: the side of those who ask.
#[derive(Debug)]
pub(crate) struct Confirmer {
    looks: Batcher<Vec<Key>, Confirmed>,
    gate: Arc<Gate>,
    patience: Duration,
}

/// Tells whether the level of a shard can be given at this moment.
#[derive(Debug)]
struct Gate {
    level: Level,
    store: Store,
    shard: Arc<ShardKeys>,
    /// What was missing last.
    last: Mutex<Option<Missing>>,
}

/// The side that reads and waits.
pub(crate) struct Confirming {
    durable: Durable,
    gate: Arc<Gate>,
    inbox: Inbox<Vec<Key>, Confirmed>,
}

/// Both sides for one shard, on a connection of its own.
pub(crate) fn open(
    store: &Store,
    shard: &Arc<ShardKeys>,
    level: Level,
) -> Result<(Arc<Confirmer>, Confirming), OpenError> {
    let durable = Durable::open(&store.redis, level)?;
    let bounds = Bounds {
        items: MAX_ITEMS,
        bytes: MAX_ITEMS * size_of::<Key>(),
        waiting: WAITING,
        // The group before, and one's own.
        patience: 2 * (budget(&durable, store) + 2 * store.patience),
    };
    let (looks, inbox) = batcher::channel(bounds);
    let gate =
        Gate { level, store: store.clone(), shard: Arc::clone(shard), last: Mutex::default() };
    let gate = Arc::new(gate);
    let confirmer = Confirmer { looks, gate: Arc::clone(&gate), patience: bounds.patience };
    Ok((Arc::new(confirmer), Confirming { durable, gate, inbox }))
}

/// How long a group may take: a wait that ends with its connection, and another one.
fn budget(durable: &Durable, store: &Store) -> Duration {
    2 * durable.wait() + store.patience
}

impl Gate {
    /// What the server lacks for the level; nothing is written to find out.
    async fn missing(&self) -> Result<Option<Missing>, Lost> {
        let call = || self.level.missing_on(&self.store.redis, &self.shard);
        let missing = patiently(self.store.patience, call).await?.answer;
        // One plain value: whole whatever panicked.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != missing {
            let (queue, level) = (&self.shard.queue, word(self.level));
            match missing {
                Some(missing) => warn!(%queue, level, %missing, "redis cannot give the durability"),
                None => info!(%queue, level, "redis gives the durability again"),
            }
            *last = missing;
        }
        Ok(missing)
    }

    /// What is kept, as safe as Redis is by itself, and nothing written.
    async fn read(&self, keys: &[Key]) -> Confirmed {
        let read = Read { shard: &self.shard, keys, whole: 0, tick: false };
        let call = || read.run(&self.store.redis);
        let answered =
            patiently(self.store.patience, call).await.map_err(|lost| self.unread(&lost));
        Ok((answered?.answer, Safety::of(self.level, None)))
    }

    fn unread(&self, lost: &Lost) -> Unread {
        let queue = &self.shard.queue;
        match &lost.error {
            Some(error) => warn!(%queue, error = %Chain(error), "a waiting lookup failed"),
            None => warn!(%queue, "a waiting lookup was not answered in time"),
        }
        lost.unread()
    }
}

impl Confirmer {
    /// What the server lacks for the level of the queue, if it does; nothing is written to find out.
    pub(crate) async fn missing(&self) -> Result<Option<Missing>, Lost> {
        self.gate.missing().await
    }

    /// Looks at up to [`MAX_ITEMS`] keys once more, and waits until what is told of them is safe, or the wait runs out.
    pub(crate) async fn look(&self, keys: Vec<Key>) -> Result<Confirmed, Unanswered> {
        let bytes = keys.len() * size_of::<Key>();
        self.looks.ask(keys, bytes).await
    }

    /// How long an answer may take.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// How safe an answer is that could not be waited for.
    pub(crate) fn unsafe_answer(&self) -> Safety {
        Safety::of(self.gate.level, None)
    }
}

impl Confirming {
    /// Looks until no caller can come any more.
    pub(crate) async fn run(mut self) {
        while self.inbox.wait().await {
            let group = self.inbox.take();
            if !group.is_empty() {
                let keys: Vec<Key> = group.iter().flat_map(|job| job.item.clone()).collect();
                tell(group, self.confirm(&keys).await);
            }
        }
    }

    async fn confirm(&self, keys: &[Key]) -> Confirmed {
        let gate = &self.gate;
        if gate.missing().await.map_err(|lost| gate.unread(&lost))?.is_some() {
            return gate.read(keys).await;
        }
        let read = Read { shard: &gate.shard, keys, whole: 0, tick: true };
        // Over again from the read, if the connection was lost.
        let call = || read.run_at(&self.durable);
        match patiently(budget(&self.durable, &gate.store), call).await {
            Ok(answered) => {
                let (found, reached) = answered.answer;
                Ok((found, Safety::of(gate.level, Some(reached))))
            }
            Err(lost) => {
                gate.unread(&lost);
                gate.read(keys).await
            }
        }
    }
}

/// Gives each caller its own keys' part.
fn tell(group: Vec<Job<Vec<Key>, Confirmed>>, confirmed: Confirmed) {
    let mut found = match confirmed {
        Ok((found, safety)) => Ok((found.into_iter(), safety)),
        Err(unread) => Err(unread),
    };
    for job in group {
        let count = job.item.len();
        let part = match &mut found {
            Ok((found, safety)) => Ok((found.by_ref().take(count).collect(), *safety)),
            Err(unread) => Err(*unread),
        };
        job.answer(part);
    }
}

/// The level of the queue cannot be given at this moment.
pub(crate) fn unavailable(missing: Missing) -> Problem {
    Problem::new(
        Kind::DurabilityUnavailable,
        format!("redis cannot give the durability of this queue: {missing}; nothing was changed"),
    )
}

impl App {
    /// Looks at a request for an answer: as safely as its queue asks, and how safe that is. Nothing is said of the safety
    /// where the queue asks for no more than Redis gives by itself.
    pub(crate) async fn look_to_tell(
        &self,
        named: &Named,
    ) -> Result<Option<(Found, Option<Safety>)>, Problem> {
        let Some(confirmer) = &named.shard().confirmer else {
            return Ok(self.look(named).await?.map(|found| (found, None)));
        };
        let (found, safety) = match confirmer.look(vec![named.key]).await {
            Ok(Ok(confirmed)) => confirmed,
            Err(Unanswered::Crowded) => return Err(crowded()),
            Ok(Err(unread)) => return Err(unread.problem()),
            Err(_) => return Err(Unread::Unanswered.problem()),
        };
        let found = found.into_iter().next().flatten().filter(|found| is_of(found, named));
        Ok(found.map(|found| (found, Some(safety))))
    }

    /// Refuses a call that would write what cannot be made as safe as the queue asks.
    pub(crate) async fn check_level(&self, named: &Named) -> Result<(), Problem> {
        let Some(confirmer) = &named.shard().confirmer else { return Ok(()) };
        match confirmer.missing().await {
            Ok(None) => Ok(()),
            Ok(Some(missing)) => Err(unavailable(missing)),
            Err(lost) => Err(lost.unread().problem()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_only_at_the_level_that_was_asked_for() {
        let reached = |whole, replicas| Some(Reached { whole, replicas });
        let told = |level, reached| serde_json::to_string(&Safety::of(level, reached)).unwrap();
        let two = Level::Replicated(2);
        assert!(Safety::of(two, reached(true, 2)).is_whole());
        assert!(!Safety::of(two, reached(false, 1)).is_whole());
        assert!(!Safety::of(Level::Fsynced, None).is_whole());
        assert_eq!(
            told(two, reached(false, 1)),
            r#"{"asked":"replicated","reached":"acknowledged","replicas":1}"#
        );
        assert_eq!(
            told(Level::Fsynced, reached(true, 0)),
            r#"{"asked":"fsynced","reached":"fsynced"}"#
        );
    }
}
