//! What the sessions of workers call themselves, for eyes only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holdfast_core::model::Session;
use holdfast_core::script::registered_workers;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use crate::app::Store;

/// How often an unknown session makes us read the registry.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The names that were read, by session: one never changes its name.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    names: HashMap<Session, String>,
    read_at: Option<Instant>,
}

/// A worker's row, as far as it matters here.
#[derive(Deserialize)]
struct Row {
    name: String,
}

impl Holders {
    /// The name of a session; none if the registry does not tell.
    pub(crate) async fn name(&self, store: &Store, session: Session) -> Option<String> {
        if let Some(name) = self.lock().names.get(&session) {
            return Some(name.clone());
        }
        if !self.is_due() {
            return None;
        }
        // Nothing depends on it: a registry that cannot be read costs a name, not the status.
        let rows = timeout(store.patience, registered_workers(&store.redis)).await.ok()?.ok()?;
        let named = rows.into_iter().filter_map(|row| {
            Some((row.session, serde_json::from_str::<Row>(&row.text).ok()?.name))
        });
        let mut known = self.lock();
        known.names = named.collect();
        known.names.get(&session).cloned()
    }

    /// Whether the registry is to be read now; says so once in a while.
    fn is_due(&self) -> bool {
        let mut known = self.lock();
        let due = known.read_at.is_none_or(|at| at.elapsed() >= READ_EVERY);
        if due {
            known.read_at = Some(Instant::now());
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Each change replaces a value as a whole: sound also after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
