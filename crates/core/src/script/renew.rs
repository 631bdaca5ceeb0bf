//! `renew`: prolong leases that are still ours.

use std::time::Duration;

use super::{Script, millis, u64_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle},
};

pub(super) static RENEW: Script<3, 1, 2> =
    Script::new("renew", include_str!("../../lua/renew.lua"));

/// Prolongs leases, as many as there are in one call.
pub struct Renew<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// How long each is to last from now.
    pub lease: Duration,
    /// Proof of ownership, and what is owned.
    pub held: &'a [(Fence, Handle)],
}

/// What became of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewReply {
    /// Ours until this long from when the script ran.
    Held(Duration),
    /// Ours as long, but the caller wants it stopped.
    Cancel(Duration),
    /// Not ours any more: abort the call, publish nothing.
    Lost,
}

impl Renew<'_> {
    /// Runs the script: one reply a lease, in their order.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<RenewReply>, StoreError> {
        let keys = [&self.shard.leased, &self.shard.ticket, &self.shard.meta].map(String::as_str);
        let rows =
            self.held.iter().map(|(fence, handle)| [fence.bytes(), handle.bytes()]).collect();
        RENEW
            .run(redis, keys, [millis(self.lease)], rows, |word, rest| {
                let till = u64_at(rest, 0).map(Duration::from_millis);
                match word {
                    b"" => Some(RenewReply::Held(till?)),
                    b"cancel" => Some(RenewReply::Cancel(till?)),
                    b"lost" => Some(RenewReply::Lost),
                    _ => None,
                }
            })
            .await
    }
}
