//! Submits that are kept, on their way to be as safe as their queue asks.

use std::sync::Arc;

use holdfast_core::model::Key;
use holdfast_core::redis::Missing;
use holdfast_core::script::Found;
use tokio::task::JoinSet;

use super::{Confirmer, Safety};
use crate::admission::{Told, Waiting, answer};
use crate::status::Seen;
use crate::store::Lost;

/// Tells callers what became of their submits, those that are kept only once that is safe.
///
/// The next submits need not wait for it: they are stored meanwhile, and waited for together.
pub(crate) struct Kept {
    confirmer: Arc<Confirmer>,
    groups: JoinSet<()>,
}

impl Kept {
    pub(crate) fn new(confirmer: Arc<Confirmer>) -> Self {
        Self { confirmer, groups: JoinSet::new() }
    }

    /// What the server lacks for the level.
    pub(crate) async fn missing(&self) -> Result<Option<Missing>, Lost> {
        self.confirmer.missing().await
    }

    /// Tells a group of at most as many as go into one call.
    pub(crate) fn tell(&mut self, group: Vec<(Waiting, Told)>) {
        // Those who were told are forgotten.
        while self.groups.try_join_next().is_some() {}
        let is_kept = |told: &Told| matches!(told, Told::Accepted(_) | Told::Replayed(_));
        let (kept, others): (Vec<_>, Vec<_>) =
            group.into_iter().partition(|(_, told)| is_kept(told));
        for (job, told) in others {
            answer(job, told);
        }
        if !kept.is_empty() {
            let confirmer = Arc::clone(&self.confirmer);
            self.groups.spawn(async move { confirm(&confirmer, kept).await });
        }
    }

    /// Waits until all were told.
    pub(crate) async fn finish(self) {
        self.groups.join_all().await;
    }
}

async fn confirm(confirmer: &Confirmer, kept: Vec<(Waiting, Told)>) {
    let keys: Vec<Key> = kept.iter().map(|(job, _)| job.item.submission.key()).collect();
    let Ok(Ok((found, safety))) = confirmer.look(keys).await else {
        // They are kept; that is all that is known.
        for (job, told) in kept {
            answer(job, with(told, None, confirmer.unsafe_answer()));
        }
        return;
    };
    for ((job, told), found) in kept.into_iter().zip(found) {
        let told = match found {
            Some(found) => with(told, Some(found), safety),
            None => Told::Unknown,
        };
        answer(job, told);
    }
}

/// The same, as it was found, and as safe as that is.
fn with(told: Told, found: Option<Found>, safety: Safety) -> Told {
    let (seen, replayed) = match told {
        Told::Accepted(seen) => (seen, false),
        Told::Replayed(seen) => (seen, true),
        other => return other,
    };
    let generation = seen.ticket.generation;
    let seen = match found.map(Seen::from) {
        // Redis forgot what it had taken, or the request has moved on: nothing certain can be said of this generation.
        Some(now) if now.ticket.generation != generation => return Told::Unknown,
        Some(now) => now,
        None => seen,
    };
    let seen = seen.with_safety(Some(safety));
    if replayed { Told::Replayed(seen) } else { Told::Accepted(seen) }
}
