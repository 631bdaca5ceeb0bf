//! The connections of a worker.

use holdfast_core::Redis;
use holdfast_core::redis::OpenError;
use holdfast_core::script::MAX_BYTES;

/// What is large travels on a connection of its own: on a slow link it takes longer than other calls
/// may, and they must not wait for it.
#[derive(Clone)]
pub(crate) struct Store {
    /// For all but what is large.
    pub(crate) usual: Redis,
    /// For one item that is larger than others are together.
    pub(crate) large: Redis,
}

impl Store {
    /// Takes a connection, and opens another like it.
    pub(crate) fn open(usual: Redis) -> Result<Self, OpenError> {
        let large = usual.for_large()?;
        Ok(Self { usual, large })
    }
}

/// Whether it travels alone.
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > MAX_BYTES
}
