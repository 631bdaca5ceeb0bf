//! `redrive`: start dead requests again, each under a new generation.

use super::{Script, bytes_at, number};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Generation, Handle, Ticket},
};

pub(super) static REDRIVE: Script<11, 0, 3> =
    Script::new("redrive", include_str!("../../lua/redrive.lua"));

/// Starts dead requests of one shard again. A repeat names the same generations.
pub struct Redrive<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// Which dead ones, and under which new generation each.
    pub items: &'a [(Handle, Generation)],
    /// Deadline in Unix ms; none: as long from now as it was from the submission.
    pub deadline: Option<u64>,
}

/// What became of one redrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedriveReply {
    /// Pending again.
    Redriven(Box<Ticket>),
    /// This new generation is there already.
    Already(Box<Ticket>),
    /// Not dead, or another generation is there.
    Gone,
    /// Its request is lost.
    Bodyless,
    /// The queue is full.
    Full,
    /// The deadline has passed.
    Late,
}

impl Redrive<'_> {
    /// Runs the script: one reply an item, in their order.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<RedriveReply>, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.pending,
            &shard.suspects,
            &shard.delayed,
            &shard.leased,
            &shard.dead,
            &shard.request,
            &shard.ticket,
            &shard.result,
            &shard.meta,
            &shard.lanes,
            &shard.bell,
        ]
        .map(String::as_str);
        let deadline = number(self.deadline.unwrap_or(0));
        let row = |(handle, generation): &(Handle, Generation)| {
            [handle.bytes(), generation.bytes(), deadline.clone()]
        };
        let rows = self.items.iter().map(row).collect();
        REDRIVE
            .run(redis, keys, [], rows, |word, rest| {
                let ticket = || Ticket::unpack(bytes_at(rest, 0)?).ok().map(Box::new);
                match word {
                    b"redriven" => Some(RedriveReply::Redriven(ticket()?)),
                    b"already" => Some(RedriveReply::Already(ticket()?)),
                    b"gone" => Some(RedriveReply::Gone),
                    b"bodyless" => Some(RedriveReply::Bodyless),
                    b"full" => Some(RedriveReply::Full),
                    b"late" => Some(RedriveReply::Late),
                    _ => None,
                }
            })
            .await
    }
}
