//! Whether Redis can be used, as far as calls and connection have told.

use std::sync::{Mutex, PoisonError};

use fred::error::{Error, ErrorKind};

use crate::{StoreError, error::Refusal, metrics};

/// Why Redis cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No connection, or no answer in time.
    Unreachable,
    /// It takes no writes.
    ReadOnly,
    /// `maxmemory` is reached: it drains, but takes nothing in.
    Full,
    /// It is starting, failing over, or busy.
    NotReady,
    /// A right is missing, or the password is wrong.
    Denied,
}

impl Trouble {
    const ALL: [Self; 5] =
        [Self::Unreachable, Self::ReadOnly, Self::Full, Self::NotReady, Self::Denied];

    /// One word for reasons and labels.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::ReadOnly => "read-only",
            Self::Full => "full",
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

    /// A call ended: without an error, or with this one.
    pub(super) fn note(&self, error: Option<&Error>) {
        let trouble = match error {
            None => None,
            Some(error)
                if matches!(
                    error.kind(),
                    ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled
                ) =>
            {
                Some(Trouble::Unreachable)
            }
            Some(error) => match StoreError::new("", error.clone()).refusal() {
                Some(Refusal::ReadOnly) => Some(Trouble::ReadOnly),
                // Everything but submit goes on at maxmemory: the next good call would hide it, so it is not kept.
                Some(Refusal::NotReady) => Some(Trouble::NotReady),
                Some(Refusal::Denied) => Some(Trouble::Denied),
                Some(Refusal::OutOfMemory) => Some(Trouble::Full),
                Some(Refusal::Other) | None => None,
            },
        };
        self.set(trouble);
    }

    fn set(&self, trouble: Option<Trouble>) {
        let mut state = self.lock();
        if state.seen && state.trouble == trouble {
            return;
        }
        *state = State { trouble, seen: true };
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
    use super::*;

    #[test]
    fn nothing_is_well_before_the_first_word() {
        let status = Status::default();
        assert_eq!(status.trouble(), Some(Trouble::Unreachable));
        status.note(None);
        assert_eq!(status.trouble(), None);
    }

    #[test]
    fn a_server_that_takes_no_writes_is_named_so() {
        let status = Status::default();
        for word in ["READONLY", "MISCONF", "NOREPLICAS"] {
            status.note(Some(&Error::new(ErrorKind::Unknown, format!("{word} said the server"))));
            assert_eq!(status.trouble(), Some(Trouble::ReadOnly), "{word}");
        }
    }
}
