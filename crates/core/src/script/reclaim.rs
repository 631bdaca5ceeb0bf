//! `reclaim`: take back leases whose time ran out.

use fred::types::Value;

use super::{MAX_ITEMS, Script, handle_at, number, outcome_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle, Outcome},
};

pub(super) static RECLAIM: Script<12, 1, 2> =
    Script::new("reclaim", include_str!("../../lua/reclaim.lua"));

/// Takes back leases of one shard.
pub struct Reclaim<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// How many replies at most; 256 are the limit. As many as that: there may be more to do.
    pub limit: usize,
    /// Leases that an operator ends now; empty: those whose time ran out.
    pub named: &'a [(Fence, Handle)],
}

/// What a lease that ended was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// A lapse.
    Lapse,
    /// Nothing but a note: an outage ended it.
    Forgiven,
    /// Nothing.
    None,
}

/// What became of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimReply {
    /// Claimable again.
    Returned(Handle, Charge),
    /// Ended instead.
    Ended(Handle, Outcome, Charge),
    /// Its ticket names another generation: only the lease was removed.
    Dropped(Handle),
    /// A named lease that is not held.
    Lost(Handle),
    /// Still held: its end lay further ahead than any lease, since the clock went back, and was lowered.
    Lowered(Handle),
}

impl Reclaim<'_> {
    /// Runs the script: one reply a lease.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<ReclaimReply>, StoreError> {
        let shard = self.shard;
        let keys = [
            &shard.pending,
            &shard.suspects,
            &shard.leased,
            &shard.finished,
            &shard.dead,
            &shard.request,
            &shard.ticket,
            &shard.result,
            &shard.meta,
            &shard.lanes,
            &shard.bell,
            &shard.ended,
        ]
        .map(String::as_str);
        let rows =
            self.named.iter().map(|(fence, handle)| [fence.bytes(), handle.bytes()]).collect();
        RECLAIM.run(redis, keys, [number(self.limit.clamp(1, MAX_ITEMS))], rows, read).await
    }
}

fn read(word: &[u8], rest: &[Value]) -> Option<ReclaimReply> {
    let handle = handle_at(rest, 0)?;
    let charge = |at: usize| match rest.get(at)?.as_bytes()? {
        b"lapse" => Some(Charge::Lapse),
        b"forgiven" => Some(Charge::Forgiven),
        b"none" => Some(Charge::None),
        _ => None,
    };
    match word {
        b"returned" => Some(ReclaimReply::Returned(handle, charge(1)?)),
        b"ended" => Some(ReclaimReply::Ended(handle, outcome_at(rest, 1)?, charge(2)?)),
        b"dropped" => Some(ReclaimReply::Dropped(handle)),
        b"lost" => Some(ReclaimReply::Lost(handle)),
        b"lowered" => Some(ReclaimReply::Lowered(handle)),
        _ => None,
    }
}
