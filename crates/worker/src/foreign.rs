//! The readers of what gateways and Redis say, each alone: to be held to their rules with any bytes.
//!
//! They are the functions that serve attempts, and nothing else.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use holdfast_core::model::{Answer, FailureCode, Fence, Handle};

use crate::gateway::{self, Reply};
use crate::{backoff, cancels, classify};

/// The names of the headers that are kept with an answer.
pub const KEPT_HEADERS: [&str; 5] = gateway::KEPT_HEADERS;

/// As much of the body as is kept of an answer that is too large.
pub const KEPT_HEAD: usize = gateway::KEPT_HEAD;

/// What the `Retry-After` fields of an answer ask for.
pub fn retry_after<'a>(
    fields: impl Iterator<Item = &'a [u8]>,
    now: SystemTime,
) -> Option<Duration> {
    backoff::retry_after(fields, now)
}

/// Whether a status asks for another attempt.
pub fn is_retried(status: u16) -> bool {
    classify::is_retried(status)
}

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The gateway's status.
    pub status: u16,
    /// Headers and body as they are stored.
    pub answer: Answer,
    /// Whether that is all of it; else it was over the limit, and this is its beginning.
    pub is_whole: bool,
}

/// Takes what a gateway sends on a connection of HTTP/1.1 before it closes it, with at most `limit` bytes of body.
pub async fn answer(sent: Bytes, limit: usize) -> Result<Taken, FailureCode> {
    let reply = gateway::take(sent, limit).await?;
    let (answer, is_whole) = match reply {
        Reply::Whole(answer) => (answer, true),
        Reply::TooLarge(answer) => (answer, false),
        Reply::Broken(_, fault) => return Err(fault.into()),
    };
    let (status, answer) = answer.stored();
    Ok(Taken { status, answer, is_whole })
}

/// The leases that a message of a cancel channel names.
pub fn cancelled(message: &[u8]) -> Vec<(Fence, Handle)> {
    cancels::owners(message).collect()
}
