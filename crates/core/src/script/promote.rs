//! `promote`: let what is due be claimed again.

use super::{MAX_ITEMS, Script, handle_at, number};
use crate::{Redis, StoreError, keys::ShardKeys, model::Handle};

pub(super) static PROMOTE: Script<5, 1, 2> =
    Script::new("promote", include_str!("../../lua/promote.lua"));

/// Moves requests of one shard out of `delayed`.
pub struct Promote<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// How many at most; 256 are the limit.
    pub limit: usize,
    /// What an operator pulls forward, with the due time (ms) it saw; empty: what is due.
    pub named: &'a [(Handle, u64)],
}

/// What became of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromoteReply {
    /// Claimable now.
    Moved(Handle),
    /// Not delayed, or due at another time than its caller saw.
    Changed(Handle),
}

impl Promote<'_> {
    /// Runs the script: one reply a request.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<PromoteReply>, StoreError> {
        let shard = self.shard;
        let keys = [&shard.pending, &shard.suspects, &shard.delayed, &shard.ticket, &shard.bell]
            .map(String::as_str);
        let rows = self.named.iter().map(|(handle, due)| [handle.bytes(), number(due)]).collect();
        PROMOTE
            .run(redis, keys, [number(self.limit.clamp(1, MAX_ITEMS))], rows, |word, rest| {
                match word {
                    b"moved" => handle_at(rest, 0).map(PromoteReply::Moved),
                    b"changed" => handle_at(rest, 0).map(PromoteReply::Changed),
                    _ => None,
                }
            })
            .await
    }
}
