//! `read`: where requests are, and how they ended.

use bytes::Bytes;
use fred::types::Value;

use super::{Script, bytes_at, flag, home_at, number, score_at, u64_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Home, Key, Ticket},
    redis::{Durable, Reached},
};

pub(super) static READ: Script<9, 2, 1> = Script::new("read", include_str!("../../lua/read.lua"));

/// Reads requests of one shard.
pub struct Read<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// Which.
    pub keys: &'a [Key],
    /// How many bytes a record may have to come whole. Of a longer one come its first [`RECORD_HEAD`], which tell outcome
    /// and end.
    pub whole: usize,
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
    /// The packed record, or its first bytes; empty while there is none.
    pub record: Bytes,
}

/// How many bytes come of a record that does not come whole.
pub const RECORD_HEAD: usize = 64;

impl Found {
    /// Whether the record is known to have come whole. One that is as long as the part of a longer one may have.
    pub fn is_whole(&self) -> bool {
        self.record.len() != RECORD_HEAD
    }
}

impl Read<'_> {
    /// Runs the script: one reply a key, in their order; none where nothing is kept.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<Option<Found>>, StoreError> {
        let rows = self.rows();
        READ.run(redis, self.homes(), [number(self.whole), flag(self.tick)], rows, found).await
    }

    /// The same with a write of its own, in any case, and a wait for it: what was found is then as safe as told.
    pub async fn run_at(
        &self,
        durable: &Durable,
    ) -> Result<(Vec<Option<Found>>, Reached), StoreError> {
        let rows = self.rows();
        READ.run_then_wait(durable, self.homes(), [number(self.whole), flag(true)], rows, found)
            .await
    }

    fn homes(&self) -> [&str; 9] {
        let shard = self.shard;
        [
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
        .map(String::as_str)
    }

    fn rows(&self) -> Vec<[Bytes; 1]> {
        self.keys.iter().map(|key| [key.bytes()]).collect()
    }
}

/// One answer of the script; none inside where nothing is kept.
fn found(word: &[u8], rest: &[Value]) -> Option<Option<Found>> {
    match word {
        b"none" => Some(None),
        b"at" => Some(Some(Found {
            home: home_at(rest, 0)?,
            score: score_at(rest, 1)?,
            now: u64_at(rest, 2)?,
            ticket: Box::new(Ticket::unpack(bytes_at(rest, 3)?).ok()?),
            record: bytes_at(rest, 4)?,
        })),
        _ => None,
    }
}
