//! Whether Redis can be used, as far as calls and connection have told.

use std::sync::{Mutex, PoisonError};

use fred::error::Error;
use tracing::{info, warn};

use crate::{StoreError, error::Refusal, metrics};

/// Why Redis cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No connection, or no answer in time.
    Unreachable,
    /// It takes no writes.
    ReadOnly,
    /// It is starting, failing over, or busy.
    NotReady,
    /// A right is missing, or the password is wrong.
    Denied,
}

impl Trouble {
    const ALL: [Self; 4] = [Self::Unreachable, Self::ReadOnly, Self::NotReady, Self::Denied];

    /// One word for reasons and labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::ReadOnly => "read-only",
            Self::NotReady => "not-ready",
            Self::Denied => "denied",
        }
    }
}

#[derive(Default)]
struct State {
    trouble: Option<Trouble>,
    seen: bool,
}

/// The last word on Redis.
#[derive(Default)]
pub(super) struct Status(Mutex<State>);

impl Status {
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let state = self.lock();
        if state.seen { state.trouble } else { Some(Trouble::Unreachable) }
    }

    /// The connection came or went. A fresh one is believed until a call says otherwise.
    pub(super) fn connected(&self, connected: bool) {
        self.set((!connected).then_some(Trouble::Unreachable));
    }

    /// A call ended: without an error, or with this one. `wrote`: it could not have ended well where writes are refused.
    pub(super) fn note(&self, error: Option<&Error>, wrote: bool) {
        let trouble = match error {
            None if !wrote => match self.trouble() {
                Some(Trouble::ReadOnly) => Some(Trouble::ReadOnly),
                _ => None,
            },
            None => None,
            Some(error) => match StoreError::new("", error.clone()).refusal() {
                Some(Refusal::ReadOnly) => Some(Trouble::ReadOnly),
                Some(Refusal::NotReady) => Some(Trouble::NotReady),
                Some(Refusal::Denied) => Some(Trouble::Denied),
                // At maxmemory all but submit and redrive goes on: Redis is well, its callers hear of it.
                Some(Refusal::OutOfMemory | Refusal::Other) => None,
                None => Some(Trouble::Unreachable),
            },
        };
        self.set(trouble);
    }

    fn set(&self, trouble: Option<Trouble>) {
        let mut state = self.lock();
        if state.seen && state.trouble == trouble {
            return;
        }
        let before = std::mem::replace(&mut *state, State { trouble, seen: true });
        drop(state);
        match trouble {
            // The first word is no news: nothing was connected yet.
            Some(_) if !before.seen => {}
            Some(trouble) => warn!(trouble = trouble.word(), "redis can't be used"),
            None => info!("redis answers"),
        }
        metrics::redis_up(trouble.is_none());
        for one in Trouble::ALL {
            metrics::redis_fault(one.word(), trouble == Some(one));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Two plain values: whole whatever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use fred::error::ErrorKind;

    use super::*;

    #[test]
    fn nothing_is_well_before_the_first_word() {
        let status = Status::default();
        assert_eq!(status.trouble(), Some(Trouble::Unreachable));
        status.note(None, true);
        assert_eq!(status.trouble(), None);
    }

    #[test]
    fn a_server_that_takes_no_writes_is_named_so() {
        let status = Status::default();
        for word in ["READONLY", "MISCONF", "NOREPLICAS"] {
            status.note(
                Some(&Error::new(ErrorKind::Unknown, format!("{word} said the server"))),
                true,
            );
            status.note(None, false);
            assert_eq!(status.trouble(), Some(Trouble::ReadOnly), "{word}: a read proves no write");
            status.note(None, true);
            assert_eq!(status.trouble(), None, "{word}");
        }
    }
}
