//! `cancel`: end what waits; ask the worker of what runs to stop.

use super::{Script, outcome_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Handle, Outcome},
};

pub(super) static CANCEL: Script<13, 0, 1> =
    Script::new("cancel", include_str!("../../lua/cancel.lua"));

/// Cancels requests of one shard. A repeat names the same handles.
pub struct Cancel<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// Which generations.
    pub handles: &'a [Handle],
}

/// What became of one cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReply {
    /// It waited, and is ended now.
    Cancelled,
    /// It runs; its worker is told to stop.
    Asked,
    /// It had ended before, like this.
    Ended(Outcome),
    /// Another generation is there, or none.
    Gone,
}

impl Cancel<'_> {
    /// Runs the script: one reply a handle, in their order.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<CancelReply>, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.pending,
            &shard.suspects,
            &shard.delayed,
            &shard.leased,
            &shard.finished,
            &shard.dead,
            &shard.request,
            &shard.ticket,
            &shard.result,
            &shard.meta,
            &shard.lanes,
            &shard.ended,
            &shard.cancel,
        ]
        .map(String::as_str);
        let rows = self.handles.iter().map(|handle| [handle.bytes()]).collect();
        CANCEL
            .run(redis, keys, [], rows, |word, rest| match word {
                b"cancelled" => Some(CancelReply::Cancelled),
                b"asked" => Some(CancelReply::Asked),
                b"ended" => Some(CancelReply::Ended(outcome_at(rest, 0)?)),
                b"gone" => Some(CancelReply::Gone),
                _ => None,
            })
            .await
    }
}
