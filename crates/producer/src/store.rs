//! Calls to Redis as a caller of HTTP may wait for them: repeated for a moment, then told honestly.

use std::time::Duration;

use holdfast_core::StoreError;
use holdfast_core::error::Refusal;
use tokio::time::{Instant, sleep, timeout_at};

use crate::problem::{Kind, Problem};

/// What a caller waits beyond the end of a call that Redis does not answer; too little for a call of its own.
pub(crate) const MOMENT: Duration = Duration::from_millis(50);

/// The first pause before a call is repeated; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What the patience ran out on.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Whether a copy of the call may have done its work.
    pub(crate) may_have_run: bool,
    /// The last error; none if the time ran out first.
    pub(crate) error: Option<StoreError>,
}

/// An answer, and whether a copy of the call before it stayed without one.
#[derive(Debug)]
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    pub(crate) after_unanswered: bool,
    /// How long the copy took that was answered.
    pub(crate) elapsed: Duration,
}

/// Sends a call, and again while its outcome is open and there is time: every script is repeatable.
pub(crate) async fn patiently<T, F>(
    patience: Duration,
    mut call: impl FnMut() -> F,
) -> Result<Answered<T>, Lost>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let until = Instant::now() + patience;
    let mut pause = PAUSE;
    let mut may_have_run = false;
    loop {
        let sent = Instant::now();
        let error = match timeout_at(until, call()).await {
            Ok(Ok(answer)) => {
                let elapsed = sent.elapsed();
                return Ok(Answered { answer, after_unanswered: may_have_run, elapsed });
            }
            Ok(Err(error)) => error,
            // A script that is under way goes on without us.
            Err(_) => return Err(Lost { may_have_run: true, error: None }),
        };
        may_have_run |= error.may_have_run();
        if !is_worth_repeating(&error) || Instant::now() + pause + MOMENT >= until {
            return Err(Lost { may_have_run, error: Some(error) });
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Whether the same call may be answered a moment later.
fn is_worth_repeating(error: &StoreError) -> bool {
    match error {
        StoreError::Unanswered { .. } => true,
        StoreError::Refused { .. } => error.refusal() == Some(Refusal::NotReady),
        StoreError::Reply { .. } | StoreError::Crowded { .. } => false,
    }
}

impl Lost {
    /// The problem of a call that changes something and is no submit: a cancel, an operator's action.
    pub(crate) fn problem(&self) -> Problem {
        match self.error.as_ref().and_then(StoreError::refusal) {
            Some(Refusal::Denied) => store_denied(self.may_have_run.then_some(Again::Call)),
            _ if self.is_foreign() => store_foreign(),
            _ if self.may_have_run => outcome_unknown(Again::Call),
            Some(Refusal::OutOfMemory) => store_full(),
            Some(Refusal::ReadOnly) => store_read_only(),
            _ => unreachable_store(),
        }
    }

    /// Why a read came to nothing.
    pub(crate) fn unread(&self) -> Unread {
        match self.error.as_ref().and_then(StoreError::refusal) {
            Some(Refusal::Denied) => Unread::Denied,
            Some(Refusal::ReadOnly) => Unread::ReadOnly,
            _ if self.is_foreign() => Unread::Foreign,
            _ => Unread::Unanswered,
        }
    }

    /// Whether Redis did answer, by something that is not ours.
    fn is_foreign(&self) -> bool {
        self.error.as_ref().is_some_and(StoreError::is_foreign)
    }
}

/// Why a read came to nothing. The log says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// No answer came.
    Unanswered,
    /// An answer came, and Redis holds something that is not ours where ours should be.
    Foreign,
    /// The service's user lacks a right.
    Denied,
    /// Redis runs no script that may write, and those that read are such.
    ReadOnly,
}

impl Unread {
    /// What any read may be refused with for the sake of Redis, beside what any call may be.
    pub(crate) const KINDS: [Kind; 3] =
        [Kind::StoreUnreachable, Kind::StoreReadOnly, Kind::StoreDenied];

    /// What its caller is told. Nothing could have happened, so there is nothing to repeat but the question.
    pub(crate) fn problem(self) -> Problem {
        match self {
            Self::Unanswered => {
                Problem::new(Kind::StoreUnreachable, "redis does not answer this look: ask again")
            }
            Self::Foreign => Problem::new(
                Kind::Internal,
                "redis holds something that is not ours, and this look can't be answered: holdfastctl doctor tells what",
            ),
            Self::Denied => Problem::new(
                Kind::StoreDenied,
                "redis denies this service a right that a look needs, which its log names where redis does",
            ),
            Self::ReadOnly => Problem::new(
                Kind::StoreReadOnly,
                "redis takes no writes, and answers no look either: ask again",
            ),
        }
    }
}

/// What a caller does who can't know whether a call ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The submit, which the id rule keeps from being two.
    Submit,
    /// Any other call: each does the same once more, or says that it is done.
    Call,
}

impl Again {
    fn words(self) -> &'static str {
        match self {
            Self::Submit => "repeat with the same id and the same bytes",
            Self::Call => "repeat the call",
        }
    }
}

/// A call that was not sent, or did nothing.
pub(crate) fn unreachable_store() -> Problem {
    Problem::new(Kind::StoreUnreachable, "redis does not answer; nothing was changed")
}

/// More wait for their call than may.
pub(crate) fn crowded() -> Problem {
    Problem::new(Kind::Overloaded, "too many calls wait for redis; nothing was changed")
}

/// Redis answered a call by something that is not ours.
fn store_foreign() -> Problem {
    let detail = "redis holds something that is not ours, and whether the call did its work is not known: holdfastctl doctor tells what it is";
    Problem::new(Kind::Internal, detail)
}

/// A call was sent, and nobody knows whether it ran.
pub(crate) fn outcome_unknown(again: Again) -> Problem {
    let detail = format!("redis was asked and did not answer: {}", again.words());
    Problem::new(Kind::OutcomeUnknown, detail)
}

/// `maxmemory` is reached.
pub(crate) fn store_full() -> Problem {
    Problem::new(Kind::StoreFull, "redis has no memory left; nothing was stored")
}

/// Redis takes no writes.
pub(crate) fn store_read_only() -> Problem {
    Problem::new(Kind::StoreReadOnly, "redis takes no writes; nothing was changed")
}

/// The service's user of Redis lacks a right; a script that lacks one stops in its midst, and then `again` says what to do.
pub(crate) fn store_denied(again: Option<Again>) -> Problem {
    let done = match again {
        Some(again) => format!("whether anything was changed is not known: {}", again.words()),
        None => "nothing was changed".to_owned(),
    };
    let detail =
        format!("redis denies this service a right, which its log names where redis does; {done}");
    Problem::new(Kind::StoreDenied, detail)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn crowded() -> StoreError {
        StoreError::Crowded { call: "read" }
    }

    #[tokio::test]
    async fn what_was_not_sent_is_not_told_as_unknown() {
        let lost = patiently::<(), _>(Duration::from_secs(5), async || Err(crowded())).await;
        let lost = lost.unwrap_err();
        assert!(!lost.may_have_run);
        assert_eq!(lost.problem().kind(), Kind::StoreUnreachable);
    }

    #[tokio::test]
    async fn a_call_that_takes_too_long_may_have_run() {
        let endless = || std::future::pending::<Result<(), StoreError>>();
        let lost = patiently(Duration::from_millis(10), endless).await.unwrap_err();
        assert_eq!(lost.problem().kind(), Kind::OutcomeUnknown);
    }

    #[tokio::test]
    async fn an_unknown_reply_is_not_asked_for_again() {
        let calls = Cell::new(0);
        let lost = patiently::<(), _>(Duration::from_secs(5), || {
            calls.set(calls.get() + 1);
            async { Err(StoreError::Reply { call: "submit" }) }
        });
        let lost = lost.await.unwrap_err();
        assert_eq!(lost.problem().kind(), Kind::Internal, "it did answer");
        assert_eq!(lost.unread().problem().kind(), Kind::Internal);
        assert_eq!(calls.get(), 1);
    }
}
