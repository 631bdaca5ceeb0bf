//! `may`: whether the user that asks may do what is named; no step of the protocol.

use bytes::Bytes;

use super::{MAX_ITEMS, Script};
use crate::{Redis, StoreError};

pub(super) static MAY: Script<1, 0, 4> = Script::new("may", include_str!("../../lua/ask/may.lua"));

/// A command with its first words; the last ones are empty where it takes fewer.
pub(crate) type Words = [String; 4];

/// Whether something may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// It may.
    Yes,
    /// It may not.
    No,
    /// The server has no such command.
    Unknown,
}

/// Asks the node of `key` for each of these, in their order.
pub(crate) async fn may(redis: &Redis, key: &str, asked: &[Words]) -> Result<Vec<May>, StoreError> {
    let mut answers = Vec::with_capacity(asked.len());
    for some in asked.chunks(MAX_ITEMS) {
        let rows = some.iter().map(|words| words.clone().map(Bytes::from)).collect();
        answers.extend(MAY.run(redis, [key], [], rows, |word, _| read(word)).await?);
    }
    Ok(answers)
}

fn read(word: &[u8]) -> Option<May> {
    match word {
        b"yes" => Some(May::Yes),
        b"no" => Some(May::No),
        b"unknown" => Some(May::Unknown),
        _ => None,
    }
}
