//! What operators see and do, once for all who offer it: the operators' listener and `holdfastctl --redis`.
//!
//! # Reading order
//!
//! 1. `queue`, `time`: a queue over its shards; times as people read them.
//! 2. `why`: where one request is, in a sentence, and what would help.
//! 3. `lists`: queues, leases, workers.
//! 4. `overrule` and `single`: pause, limit, retry-now, release.
//! 5. `dead`: dead letters, and running them again.
//! 6. `audit`: the line that each action leaves.
//!
//! What is told here is told as it was seen: nothing is decided by it but what the scripts check again.

mod audit;
mod dead;
mod lists;
mod overrule;
mod queue;
mod single;
mod time;
mod why;

pub use audit::Audit;
pub use dead::{
    DeadFilter, DeadLetter, DeadPage, DeadRow, FilterFault, RedriveAsk, Redriven, count,
    dead_letter, dead_rows, redrive,
};
pub use lists::{
    Counts, LastFailure, LeaseRow, QueueRow, Rows, WorkerRow, lease_rows, queue_rows, worker_rows,
};
pub(crate) use overrule::read as shard_overrides;
pub use overrule::{Overrides, Overruled, Said, carry_on, overrides, overrule};
pub use queue::{Queue, queues};
pub use single::{Acted, Target, release, retry_now};
pub use time::{Seconds, span, utc};
pub(crate) use why::WORKER_SEEN;
pub use why::{Hold, LeaseSeen, Line, Why, why};

use crate::StoreError;

/// Why an operator's action was not done.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// Redis said no, or nothing.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else's word came first.
    #[error("somebody was faster: the override has version {version} now")]
    Overtaken {
        /// The version that counts.
        version: u64,
    },
    /// The queue's word is said, and shards did not hear it. A repeat spreads it again, and so does a reclaimer.
    #[error(
        "it is said, as version {version}, but {unheard} of the queue's shards did not hear it and go on as before: say it \
         again; a reclaimer carries it on too"
    )]
    Unheard {
        /// The version that counts.
        version: u64,
        /// How many shards took it just now.
        changed: u32,
        /// How many did not hear it.
        unheard: u32,
        /// What the first of them said.
        source: StoreError,
    },
    /// A limit that would leave a shard nothing.
    #[error(
        "a limit must be at least {least}, the number of shards; to stop claims, pause the queue"
    )]
    TooSmall {
        /// The least that there is.
        least: u64,
    },
    /// Nothing is kept under this id.
    #[error("nothing is kept under this id")]
    Unknown,
    /// It is somewhere else than the action needs.
    #[error("{0}")]
    Elsewhere(String),
    /// What is asked for cannot be meant.
    #[error(transparent)]
    Filter(#[from] FilterFault),
    /// It was cut off on its way. What it did until then stands.
    #[error("it was cut off on its way: what it did until then is not known")]
    Abandoned,
}

impl ActError {
    /// One word for it, for audit lines.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Store(_) => "failed",
            Self::Overtaken { .. } => "overtaken",
            Self::Unheard { .. } => "half-spread",
            Self::TooSmall { .. } | Self::Filter(_) => "refused",
            Self::Unknown => "unknown-request",
            Self::Elsewhere(_) => "not-applicable",
            Self::Abandoned => "abandoned",
        }
    }
}

/// How often a call is sent whose answer was lost: every script is repeatable.
const TRIES: usize = 3;

/// Sends a call again while its outcome is open. Says whether a copy before the last stayed unanswered.
///
/// Of a call of which a copy may have run, no error says that nothing was changed.
async fn patiently<T, F>(mut call: impl FnMut() -> F) -> Result<(T, bool), StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut unanswered = None;
    for _ in 1..TRIES {
        match call().await {
            Ok(answer) => return Ok((answer, unanswered.is_some())),
            Err(err @ StoreError::Unanswered { .. }) => {
                tracing::debug!(error = %crate::Chain(&err), "asked again");
                unanswered.get_or_insert(err);
            }
            Err(err) => return Err(worse(unanswered, err)),
        }
    }
    match call().await {
        Ok(answer) => Ok((answer, unanswered.is_some())),
        Err(err) => Err(worse(unanswered, err)),
    }
}

/// What is told of a call that failed: a no to one copy says nothing of one before it.
fn worse(unanswered: Option<StoreError>, last: StoreError) -> StoreError {
    match unanswered {
        Some(first) if !last.may_have_run() => first,
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use fred::error::{Error, ErrorKind};

    use super::*;

    fn lost() -> StoreError {
        StoreError::new("overrule", Error::new(ErrorKind::IO, "the connection is gone"))
    }

    fn refused(text: &'static str) -> StoreError {
        StoreError::new("overrule", Error::new(ErrorKind::Unknown, text))
    }

    async fn told(replies: Vec<Result<u8, StoreError>>) -> Result<(u8, bool), StoreError> {
        let mut replies = replies.into_iter();
        patiently(|| std::future::ready(replies.next().unwrap())).await
    }

    #[tokio::test]
    async fn a_no_to_the_second_copy_says_nothing_of_the_first() {
        for text in ["READONLY You can't write", "LOADING it loads", "OOM no memory"] {
            let err = told(vec![Err(lost()), Err(refused(text))]).await.unwrap_err();
            assert!(err.may_have_run(), "{text}: {err}");
            let err = told(vec![Err(refused(text))]).await.unwrap_err();
            assert!(!err.may_have_run(), "{text}: {err}");
        }
        assert_eq!(told(vec![Err(lost()), Ok(7)]).await.unwrap(), (7, true));
        assert_eq!(told(vec![Ok(7)]).await.unwrap(), (7, false));
    }
}
