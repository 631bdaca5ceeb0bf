//! What is stored and compared: newtypes made by `TryFrom`, after which nobody checks again.

mod handle;
mod names;
mod record;
mod request;
mod ticket;
mod wire;

pub use handle::{Fence, Generation, Handle, Key, Session};
pub use names::{
    Identity, InvalidName, MOST_SHARDS, Place, QueueName, RequestId, TenantName, share,
};
pub use record::{Answer, Failure, FailureCode, Outcome, Record, RecordHead};
pub use request::{Envelope, Request};
pub use ticket::{Digest, Draft, Previous, Settled, Ticket};

/// The layout of the keys that this version reads and writes; the first letters of every key say the same.
pub const SCHEMA: u32 = 1;

/// What the feature `next-field` adds to each new ticket, as a version to come might.
pub const NEXT_FIELD: &[u8] = b"\0next\xff\r\n";

/// Bytes that are not laid out as this version writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: not laid out as expected")]
pub struct Undecodable {
    /// Which value it was.
    pub what: &'static str,
}

/// Where a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// Claimable.
    Pending,
    /// Claimable, but apart from the others.
    Suspects,
    /// Waiting for its time.
    Delayed,
    /// With a worker.
    Leased,
    /// Ended, kept for its readers.
    Finished,
    /// Ended, kept whole for an operator.
    Dead,
}

impl Home {
    /// Every home.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Suspects, Self::Delayed, Self::Leased, Self::Finished, Self::Dead];

    /// The word that scripts and people use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Suspects => "suspects",
            Self::Delayed => "delayed",
            Self::Leased => "leased",
            Self::Finished => "finished",
            Self::Dead => "dead",
        }
    }

    /// Whether the generation has its terminal record.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Finished | Self::Dead)
    }

    pub(crate) fn from_word(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|home| home.word().as_bytes() == word)
    }
}
