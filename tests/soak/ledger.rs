//! What the clients did and were told, each line written the moment that it was known. No service writes here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When something happened, since the ledger was opened.
pub(crate) type At = Duration;

/// What a submit was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is kept, under this generation.
    Kept(String),
    /// Refused, and the answer says that nothing was stored: the type of the problem.
    Refused(String),
    /// Nobody knows: no answer, or one that says so.
    Unknown(String),
}

/// What a reader of a result was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) generation: String,
    pub(crate) outcome: String,
    /// What the gateway answered with, where it did.
    pub(crate) status: Option<u16>,
    pub(crate) body: Vec<u8>,
}

/// All that is known of one id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    /// When the first copy of its submit was sent.
    pub(crate) sent: At,
    /// How long it had until its deadline.
    pub(crate) timeout: Duration,
    /// What each copy of its submit was told, and when.
    pub(crate) told: Vec<(At, Told)>,
    pub(crate) cancel_asked: bool,
    /// The records that were read, in order, each with when.
    pub(crate) read: Vec<(At, Record)>,
    /// A reader was told that nothing is kept, after it had been told that it is.
    pub(crate) missed: bool,
}

impl Story {
    /// The generations under which it was kept, each once.
    pub(crate) fn kept(&self) -> Vec<&str> {
        let mut kept: Vec<&str> = Vec::new();
        for (_, told) in &self.told {
            if let Told::Kept(generation) = told
                && !kept.contains(&generation.as_str())
            {
                kept.push(generation);
            }
        }
        kept
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.told.iter().any(|(_, told)| matches!(told, Told::Kept(_)))
    }

    /// Whether some copy may have been kept that nobody was told of.
    pub(crate) fn is_unclear(&self) -> bool {
        self.told.iter().any(|(_, told)| matches!(told, Told::Unknown(_)))
    }
}

/// All stories, and what Redis forgot.
pub(crate) struct Ledger {
    opened: Instant,
    stories: Mutex<BTreeMap<String, Story>>,
    forgotten: Mutex<Forgotten>,
    /// Answers that tell of something else than what was asked.
    crossed: Mutex<Vec<String>>,
    calls: Calls,
}

/// What Redis had acknowledged and did not know any more after a restart: generations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forgotten {
    /// Wholly.
    pub(crate) requests: BTreeSet<String>,
    /// Their ends: they live again.
    pub(crate) ends: BTreeSet<String>,
    /// When it was looked, after a restart that may forget: who was told only then of what was done before is told late.
    pub(crate) looks: Vec<At>,
}

/// How the calls of all clients went.
#[derive(Debug, Default)]
struct Calls {
    under_way: AtomicU64,
    /// Failed, or said to be impossible for now.
    failed: AtomicU64,
    /// Answered, but later than anything takes where all is well.
    slow: AtomicU64,
    /// Refused because Redis is full.
    full: AtomicU64,
}

/// A call of a client, from its first byte to its end.
pub(crate) struct Call<'a> {
    calls: &'a Calls,
    began: Instant,
}

/// No call of a client waits so long where all is well, but one that asked to wait.
const SLOW: Duration = Duration::from_secs(1);

impl Ledger {
    pub(crate) fn open() -> Self {
        Self {
            opened: Instant::now(),
            stories: Mutex::default(),
            forgotten: Mutex::default(),
            crossed: Mutex::default(),
            calls: Calls::default(),
        }
    }

    pub(crate) fn now(&self) -> At {
        self.opened.elapsed()
    }

    /// Writes to a story, which begins with it.
    pub(crate) fn write(&self, id: &str, entry: impl FnOnce(&mut Story)) {
        entry(lock(&self.stories).entry(id.to_owned()).or_default());
    }

    pub(crate) fn story(&self, id: &str) -> Story {
        lock(&self.stories).get(id).cloned().unwrap_or_default()
    }

    pub(crate) fn stories(&self) -> BTreeMap<String, Story> {
        lock(&self.stories).clone()
    }

    /// The generations that clients were told of, and the generations whose end they were shown.
    pub(crate) fn acknowledged(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut kept, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for story in lock(&self.stories).values() {
            kept.extend(story.kept().into_iter().map(str::to_owned));
            ended.extend(story.read.iter().map(|(_, record)| record.generation.clone()));
        }
        (kept, ended)
    }

    /// Redis does not know these any more.
    pub(crate) fn forget(&self, more: Forgotten) {
        let mut forgotten = lock(&self.forgotten);
        forgotten.requests.extend(more.requests);
        forgotten.ends.extend(more.ends);
        forgotten.looks.extend(more.looks);
    }

    pub(crate) fn forgotten(&self) -> Forgotten {
        lock(&self.forgotten).clone()
    }

    /// An answer says whose it is: notes one that was given to another.
    pub(crate) fn look(&self, asked: &str, named: Option<&str>) {
        if let Some(named) = named.filter(|named| *named != asked) {
            let at = self.now();
            lock(&self.crossed).push(format!("{asked} was told what became of {named}, at {at:?}"));
        }
    }

    pub(crate) fn crossed(&self) -> Vec<String> {
        lock(&self.crossed).clone()
    }

    /// A client begins a call.
    pub(crate) fn call(&self) -> Call<'_> {
        self.calls.under_way.fetch_add(1, Ordering::Relaxed);
        Call { calls: &self.calls, began: Instant::now() }
    }

    /// How many calls are under way.
    pub(crate) fn under_way(&self) -> u64 {
        self.calls.under_way.load(Ordering::Relaxed)
    }

    /// How many calls have failed or were slow so far.
    pub(crate) fn troubled(&self) -> u64 {
        self.calls.failed.load(Ordering::Relaxed) + self.calls.slow.load(Ordering::Relaxed)
    }

    /// How many submits were refused so far because Redis was full.
    pub(crate) fn full(&self) -> u64 {
        self.calls.full.load(Ordering::Relaxed)
    }
}

impl Call<'_> {
    /// It failed, or was told that it is impossible for now.
    pub(crate) fn failed(self) {
        self.calls.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// It was refused because Redis is full.
    pub(crate) fn full(self) {
        self.calls.full.fetch_add(1, Ordering::Relaxed);
    }

    /// It was answered, after at least so long as it had asked to wait.
    pub(crate) fn answered(self, wait: Duration) {
        if self.began.elapsed() > wait + SLOW {
            self.calls.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.calls.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whole entries only: what panics elsewhere leaves them whole.
pub(crate) fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
