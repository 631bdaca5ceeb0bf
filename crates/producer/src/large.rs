//! Large records on their way to their callers: few at a time, and not more than there is room for.
//!
//! Some hundred callers who ask for an answer of 20 MB at once would hold up every other call on the connection to Redis, and
//! who then reads slowly keeps all of it in memory. So what is large travels on a connection of its own, a few at a time; and
//! each has a share of the memory for answers, from before it is read until the last of it is written.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::Redis;
use holdfast_core::redis::OpenError;
use holdfast_core::script::{Found, MAX_BYTES};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::problem::{Kind, Problem};

/// What all answers in the process may take together, in bytes, unless one alone may take more. Small ones are not counted.
const ANSWERS: usize = 256 << 20;

/// From here on they are.
const COUNTED: usize = 64 << 10;

/// What a record has beside its answer's body, at most: heads that are kept, names, and what is fixed.
const BESIDE: usize = 128 << 10;

/// How many large records are read at a time: Redis serves nobody else meanwhile.
const AT_ONCE: usize = 2;

/// How long a caller waits until there is room for a large one and its turn has come.
const TURN: Duration = Duration::from_secs(10);

/// How much is handed over at a time, so that what is not read yet is not copied.
const PIECE: usize = 64 << 10;

/// The way of what is large.
pub(crate) struct Large {
    pub(crate) redis: Redis,
    turns: Semaphore,
    memory: Arc<Semaphore>,
    /// What the longest record may have.
    longest: usize,
}

/// Room for a large record, and its turn to be read.
pub(crate) struct Turn<'a> {
    room: OwnedSemaphorePermit,
    _turn: tokio::sync::SemaphorePermit<'a>,
}

/// Bytes with their share of the memory for answers, which is free when the last part of them is dropped.
struct Held {
    bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Debug for Large {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Large").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl Large {
    /// Opens a connection beside this one. `answer_limit` is the longest answer of any queue.
    pub(crate) fn open(redis: &Redis, answer_limit: usize) -> Result<Self, OpenError> {
        let longest = answer_limit.max(MAX_BYTES).saturating_add(BESIDE).min(u32::MAX as usize);
        Ok(Self {
            redis: redis.for_large()?,
            turns: Semaphore::new(AT_ONCE),
            memory: Arc::new(Semaphore::new(ANSWERS.max(longest))),
            longest,
        })
    }

    /// Waits for room and for a turn.
    pub(crate) async fn turn(&self) -> Result<Turn<'_>, Problem> {
        let most = u32::try_from(self.longest).unwrap_or(u32::MAX);
        let both = async {
            let room = Arc::clone(&self.memory).acquire_many_owned(most).await.ok()?;
            Some(Turn { room, _turn: self.turns.acquire().await.ok()? })
        };
        timeout(TURN, both).await.ok().flatten().ok_or_else(crowded)
    }

    /// Gives what came along with a look its share.
    pub(crate) fn hold(&self, found: &mut Found) -> Result<(), Problem> {
        let length = found.record.len();
        if length < COUNTED {
            return Ok(());
        }
        let most = u32::try_from(length).map_err(|_| crowded())?;
        let share = Arc::clone(&self.memory).try_acquire_many_owned(most).map_err(|_| crowded())?;
        found.record = held(std::mem::take(&mut found.record), share);
        Ok(())
    }
}

impl Turn<'_> {
    /// Ends the turn; what was read keeps its share, and no more of the room.
    pub(crate) fn hold(mut self, found: &mut Found) {
        let record = std::mem::take(&mut found.record);
        // One that is longer than any may be, since a limit was lowered, has all of the room.
        let share = match self.room.split(record.len()) {
            Some(share) => share,
            None => self.room,
        };
        found.record = held(record, share);
    }
}

fn held(bytes: Bytes, share: OwnedSemaphorePermit) -> Bytes {
    Bytes::from_owner(Held { bytes, _share: share })
}

fn crowded() -> Problem {
    Problem::new(Kind::Overloaded, "the memory for answers is in use: ask again")
}

/// A body that is handed over in pieces, as fast as it is read.
pub(crate) struct Pieces(pub(crate) Bytes);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.0.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.0.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
