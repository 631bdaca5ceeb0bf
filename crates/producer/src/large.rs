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
use holdfast_core::script::Found;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::problem::{Kind, Problem};

/// What all large answers in the process may take together, in bytes, unless one alone may take more, and all that are not
/// large. Small ones are not counted.
const ANSWERS: usize = 256 << 20;

/// From here on they are.
const COUNTED: usize = 64 << 10;

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
    /// All of it.
    all: usize,
    /// The same for those that are not large, which thus need not wait for those that are.
    along: Arc<Semaphore>,
}

/// Room for a large record, and its turn to be read.
pub(crate) struct Turn<'a> {
    room: OwnedSemaphorePermit,
    _turn: SemaphorePermit<'a>,
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
        let all = ANSWERS.max(answer_limit).min(u32::MAX as usize);
        let [memory, along] = [all, ANSWERS].map(|bytes| Arc::new(Semaphore::new(bytes)));
        Ok(Self { redis: redis.for_large()?, turns: Semaphore::new(AT_ONCE), memory, all, along })
    }

    /// Waits for room for a record of this length, and for a turn. One that is longer than there is room has all of it.
    pub(crate) async fn turn(&self, length: usize) -> Result<Turn<'_>, Problem> {
        let most = u32::try_from(length.min(self.all)).unwrap_or(u32::MAX);
        let both = async {
            let room = Arc::clone(&self.memory).acquire_many_owned(most).await.ok()?;
            Some(Turn { room, _turn: self.turns.acquire().await.ok()? })
        };
        timeout(TURN, both).await.ok().flatten().ok_or_else(crowded)
    }

    /// How many bytes of large records there is room for at this moment.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.memory.available_permits()
    }

    /// Gives what came along with a look its share.
    pub(crate) fn hold(&self, found: &mut Found) -> Result<(), Problem> {
        let length = found.record.len();
        if length < COUNTED {
            return Ok(());
        }
        let most = u32::try_from(length).map_err(|_| crowded())?;
        let share = Arc::clone(&self.along).try_acquire_many_owned(most).map_err(|_| crowded())?;
        found.record = held(std::mem::take(&mut found.record), share);
        Ok(())
    }
}

impl Turn<'_> {
    /// Ends the turn; what was read keeps the room.
    pub(crate) fn hold(self, found: &mut Found) {
        found.record = held(std::mem::take(&mut found.record), self.room);
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
