//! What each call does to a shard, as the protocol says it: one function a script.
//!
//! A call runs whole, at one moment of the server's clock.

mod audit;
mod beat;
mod cancel;
mod claim;
mod depth;
mod ending;
mod expire;
mod overrule;
mod policy;
mod promote;
mod read;
mod reclaim;
mod redrive;
mod register;
mod renew;
mod ring;
mod settle;
mod submit;
mod sweep;
mod upkeep;

pub(crate) use submit::draft;

use crate::{
    call::Call,
    reply::Reply,
    state::{Ms, State},
};

impl State {
    /// Runs one call at the moment `now`.
    pub fn step(&mut self, call: &Call, now: Ms) -> Reply {
        match call {
            Call::Submit { guard, items } => self.submit(*guard, items, now),
            Call::Claim(claim) => self.claim(claim, now),
            Call::Renew { lease, leases } => self.renew(*lease, leases, now),
            Call::Settle(rows) => self.settle(rows, now),
            Call::Cancel(handles) => self.cancel(handles, now),
            Call::Redrive(rows) => self.redrive(rows, now),
            Call::Reclaim { limit, named } if named.is_empty() => self.reclaim(*limit, now),
            Call::Reclaim { named, .. } => self.reclaim_named(named, now),
            Call::Promote { limit, named } if named.is_empty() => self.promote(*limit, now),
            Call::Promote { named, .. } => self.promote_named(named),
            Call::Expire { limit } => self.expire(*limit, now),
            Call::Sweep { limit, age } => self.sweep(*limit, *age, now),
            Call::Read { whole, tick, room, ids } => self.read((*whole, *room), *tick, ids, now),
            Call::Policy { schema, write, rows } => self.declare(*schema, *write, rows),
            Call::Overrule(word) => self.overrule(word),
            Call::RegisterQueue { name, value } => self.register_queue(*name, *value, now),
            Call::RegisterWorker { name, value, age } => {
                self.register_worker(*name, *value, *age, now)
            }
            Call::EndWorker { name, age } => self.end_worker(*name, *age, now),
            Call::Ring => self.put_back_a_token(),
            Call::Depth => self.depth(now),
            Call::Audit(ids) => self.audit(ids),
            // Arguments are checked before the first write.
            Call::Spoiled { .. } => Reply::refused(),
        }
    }
}
