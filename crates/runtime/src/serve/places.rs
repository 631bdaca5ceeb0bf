//! The places of a listener: as many connections as may be open at once, and who leaves for others.
//!
//! Whoever opens connections and says nothing could hold every place until the time-outs, and open new ones then. So
//! where somebody comes and no place is free, those leave that let themselves be waited for longest: first those on which no
//! request runs, a head that does not end among them, then those whose body does not go on. Whose request runs stays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::warn;

use super::activity::{Activity, Quiet};
use crate::Seldom;

/// How long nobody has to leave for saying nothing: time to send a head.
const SPARED: Duration = Duration::from_millis(100);

/// The same for one of whose body nothing comes: a network may lose a piece, and send it again.
const BODY_SPARED: Duration = Duration::from_secs(1);

/// Of so many, one leaves at a time: looking at all of them for each newcomer would cost more than it brings.
const ONE_OF: usize = 64;

/// How often it is told that all are taken.
const TELL_EVERY: Duration = Duration::from_secs(10);

type Open = Arc<Mutex<(u64, HashMap<u64, Activity>)>>;

/// All places of a listener.
pub(super) struct Places {
    slots: Arc<Semaphore>,
    open: Open,
    warnings: Seldom,
}

/// One place; free again when dropped.
pub(super) struct Place {
    number: u64,
    open: Open,
    _slot: OwnedSemaphorePermit,
}

impl Places {
    /// So many, all of them free.
    pub(super) fn new(most: usize) -> Self {
        let slots = Arc::new(Semaphore::new(most));
        Self { slots, open: Open::default(), warnings: Seldom::new(TELL_EVERY) }
    }

    /// A place for a connection, if one is free.
    pub(super) fn take(&self, activity: &Activity) -> Option<Place> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let mut open = lock(&self.open);
        let number = open.0;
        open.0 += 1;
        open.1.insert(number, activity.clone());
        drop(open);
        Some(Place { number, open: Arc::clone(&self.open), _slot: slot })
    }

    /// Waits until a place is free; it may be another's by then.
    pub(super) async fn wait(&self) {
        // Closed by nobody, so it ends with a permit.
        drop(self.slots.acquire().await);
    }

    /// Tells those to leave that may, as few as will do.
    pub(super) fn make_room(&self) {
        let now = Instant::now();
        let mut quiet: Vec<(Quiet, Activity)> = Vec::new();
        let count = {
            let open = lock(&self.open);
            let waiting = open.1.values().filter_map(|it| Some((it.quiet()?, it.clone())));
            quiet.extend(waiting.filter(|(quiet, _)| now - quiet.since >= spared(quiet)));
            open.1.len()
        };
        let leave = (count / ONE_OF).max(1);
        if quiet.len() > leave {
            quiet.select_nth_unstable_by_key(leave, |(quiet, _)| *quiet);
            quiet.truncate(leave);
        }
        if let Some(held_back) = self.warnings.now() {
            let leave = quiet.len();
            warn!(
                open = count,
                leave,
                held_back,
                "as many connections as there may be: those that are waited for longest leave"
            );
        }
        for (_, activity) in quiet {
            activity.leave();
        }
    }
}

fn spared(quiet: &Quiet) -> Duration {
    if quiet.has_begun { BODY_SPARED } else { SPARED }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.open).1.remove(&self.number);
    }
}

fn lock(open: &Open) -> MutexGuard<'_, (u64, HashMap<u64, Activity>)> {
    // One insertion or removal at a time: whole also after a panic.
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
