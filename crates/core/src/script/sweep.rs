//! `sweep`: forget ended requests whose retention is over.

use std::time::Duration;

use super::{Script, handle_at, millis, number};
use crate::{Redis, StoreError, keys::ShardKeys, model::Handle};

pub(super) static SWEEP: Script<9, 2> = Script::new("sweep", include_str!("../../lua/sweep.lua"));

/// A session's row guards against late copies of its claims: it is kept long after any of them can still arrive.
const SESSION_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Forgets ended requests of one shard.
pub struct Sweep<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// How many a set at most; 128 are the limit.
    pub limit: usize,
}

/// What became of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepReply {
    /// Every field of it is gone.
    Swept(Handle),
    /// Another generation lives under its key: only the handle was removed.
    Dropped(Handle),
}

impl Sweep<'_> {
    /// Runs the script: one reply a handle.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<SweepReply>, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.finished,
            &shard.dead,
            &shard.request,
            &shard.ticket,
            &shard.result,
            &shard.answer,
            &shard.sessions,
            &shard.meta,
            &shard.lanes,
        ]
        .map(String::as_str);
        let head = [number(self.limit.clamp(1, 128)), millis(SESSION_KEPT)];
        SWEEP
            .run(redis, keys, head, Vec::new(), |word, rest| match word {
                b"dropped" => handle_at(rest, 0).map(SweepReply::Dropped),
                handle if rest.is_empty() => Handle::try_from(handle).ok().map(SweepReply::Swept),
                _ => None,
            })
            .await
    }
}
