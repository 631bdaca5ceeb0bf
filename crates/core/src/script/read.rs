//! `read`: where requests are, and how they ended.

use bytes::Bytes;

use super::{Script, bytes_at, flag, home_at, u64_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Home, Key, Ticket},
};

pub(super) static READ: Script<9, 2, 1> = Script::new("read", include_str!("../../lua/read.lua"));

/// Reads requests of one shard.
pub struct Read<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// Which.
    pub keys: &'a [Key],
    /// Whether the record is wanted whole; its first 64 bytes tell outcome and end.
    pub whole: bool,
    /// Whether the call must end with a write of its own, for a durability level.
    pub tick: bool,
}

/// What is kept under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is; none: its membership was lost.
    pub home: Option<Home>,
    /// The score there, in ms: a deadline, a due time, the end of a lease or of retention.
    pub score: u64,
    /// The server's time, in ms.
    pub now: u64,
    /// Its state.
    pub ticket: Box<Ticket>,
    /// The packed record, or its first 64 bytes; empty while there is none.
    pub record: Bytes,
}

impl Read<'_> {
    /// Runs the script: one reply a key, in their order; none where nothing is kept.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<Option<Found>>, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.pending,
            &shard.suspects,
            &shard.delayed,
            &shard.leased,
            &shard.finished,
            &shard.dead,
            &shard.ticket,
            &shard.result,
            &shard.meta,
        ]
        .map(String::as_str);
        let rows = self.keys.iter().map(|key| [key.bytes()]).collect();
        READ.run(redis, keys, [flag(self.whole), flag(self.tick)], rows, |word, rest| match word {
            b"none" => Some(None),
            b"at" => Some(Some(Found {
                home: home_at(rest, 0)?,
                score: u64_at(rest, 1)?,
                now: u64_at(rest, 2)?,
                ticket: Box::new(Ticket::unpack(bytes_at(rest, 3)?).ok()?),
                record: bytes_at(rest, 4)?,
            })),
            _ => None,
        })
        .await
    }
}
