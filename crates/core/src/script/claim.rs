//! `claim`: lease what a worker session has free slots for.

use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;

use super::{MAX_ITEMS, Script, bytes_at, flag, handle_at, millis, number, outcome_at, u64_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle, Outcome, Ticket, Undecodable},
    redis::Bell,
};

pub(super) static CLAIM: Script<14, 7> = Script::new("claim", include_str!("../../lua/claim.lua"));

/// One claim call of a session. Until it is answered, the session sends the same again.
pub struct Claim<'a> {
    /// The shard it looks at.
    pub shard: &'a ShardKeys,
    /// The session and the number of this call.
    pub fence: Fence,
    /// Free slots; at most 256 are used, and fewer by what the call does on the way.
    pub free: usize,
    /// How long each lease is to last.
    pub lease: Duration,
    /// Bytes of bodies to take at once; the first always fits.
    pub budget: usize,
    /// Whether this process holds no suspect, and asks for one nowhere else.
    pub may_take_suspect: bool,
    /// The latest server time, in ms, at which what is past its deadline may be ended on the way: beyond it the Redis
    /// clock has leapt. 0: nothing may.
    pub trusted_until: u64,
    /// Requests come along with new leases if their bodies together are fewer bytes than this. 0: none.
    pub along: usize,
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is leased.
    pub handle: Handle,
    /// Its state. An error: it cannot be read by this version.
    pub ticket: Result<Box<Ticket>, Undecodable>,
    /// Until its deadline, from when the script ran.
    pub left: Duration,
    /// Until the lease ends, from when the script ran.
    pub till: Duration,
    /// Its caller wants it stopped.
    pub cancel_asked: bool,
    /// What was submitted, if it came along. None: it is to be read beside, also where it is gone.
    pub request: Option<Bytes>,
}

/// What a claim gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The leases, in the order of their deadlines.
    pub leases: Vec<Lease>,
    /// What this call ended on the way.
    pub ended: Vec<(Handle, Outcome)>,
    /// Until something delayed is due.
    pub next_due: Option<Duration>,
    /// Whether the caller would find more at once.
    pub more: bool,
    /// The server's time, in ms.
    pub now: u64,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimReply {
    /// The leases of this call, new or once more.
    Claimed(Claimed),
    /// A later call of this session has run.
    Stale,
}

/// What came of a claim that waited at the bell.
#[derive(Debug)]
pub struct AtBell {
    /// Whether the wait itself went well. If not, another would end at once too, or never.
    pub heard: Result<(), StoreError>,
    /// The answer to the claim.
    pub reply: Result<ClaimReply, StoreError>,
}

enum Part {
    Head(Option<Duration>, bool, u64),
    Leases(Vec<Lease>),
    Ended(Handle, Outcome),
    Stale,
}

impl Claim<'_> {
    /// Runs the script.
    pub async fn run(&self, redis: &Redis) -> Result<ClaimReply, StoreError> {
        let parts = CLAIM.run(redis, self.keys(), self.head(), Vec::new(), read).await?;
        Ok(whole(parts))
    }

    /// Runs the script once the shard's bell has rung or `limit` is over, in the same turn of the server. Not for Cluster.
    ///
    /// Whoever drops this half-way has to hang up: else the claim runs all the same.
    pub async fn run_at(&self, bell: &Bell, limit: Duration) -> AtBell {
        let at = (bell, self.shard, limit);
        let (heard, parts) = CLAIM.run_at(at, self.keys(), self.head(), read).await;
        AtBell { heard, reply: parts.map(whole) }
    }

    fn keys(&self) -> [&str; 14] {
        let shard = self.shard;
        [
            &shard.pending,
            &shard.suspects,
            &shard.delayed,
            &shard.leased,
            &shard.finished,
            &shard.dead,
            &shard.request,
            &shard.ticket,
            &shard.result,
            &shard.sessions,
            &shard.meta,
            &shard.lanes,
            &shard.bell,
            &shard.ended,
        ]
        .map(String::as_str)
    }

    fn head(&self) -> [Bytes; 7] {
        [
            self.fence.bytes(),
            number(self.free.min(MAX_ITEMS)),
            millis(self.lease),
            number(self.budget),
            flag(self.may_take_suspect),
            number(self.trusted_until),
            number(self.along),
        ]
    }
}

fn whole(parts: Vec<Part>) -> ClaimReply {
    let mut claimed = Claimed::default();
    for part in parts {
        match part {
            Part::Stale => return ClaimReply::Stale,
            Part::Head(next_due, more, now) => {
                (claimed.next_due, claimed.more, claimed.now) = (next_due, more, now);
            }
            Part::Leases(leases) => {
                let told = leases.into_iter().map(|lease| {
                    let left = lease.left.max(left_by_ticket(&lease, claimed.now));
                    Lease { left, ..lease }
                });
                claimed.leases = told.collect();
            }
            Part::Ended(handle, outcome) => claimed.ended.push((handle, outcome)),
        }
    }
    ClaimReply::Claimed(claimed)
}

/// How long a lease's own ticket leaves it, where the script says that nothing is left. A deadline beyond what an integer
/// of a reply can tell, which only somebody else can have written, would else look like one that has passed: called
/// never, and ended never.
fn left_by_ticket(lease: &Lease, now: u64) -> Duration {
    let deadline = match &lease.ticket {
        Ok(ticket) if lease.left.is_zero() => ticket.deadline,
        _ => 0,
    };
    Duration::from_millis(deadline.saturating_sub(now))
}

fn read(word: &[u8], rest: &[Value]) -> Option<Part> {
    let span = |at| u64_at(rest, at).map(Duration::from_millis);
    match word {
        b"stale" => Some(Part::Stale),
        // -1: nothing is delayed.
        b"claimed" => Some(Part::Head(span(0), u64_at(rest, 1)? == 1, u64_at(rest, 2)?)),
        b"lease" if rest.len().is_multiple_of(LEASE) => {
            Some(Part::Leases(rest.chunks(LEASE).map(lease).collect::<Option<_>>()?))
        }
        b"ended" => Some(Part::Ended(handle_at(rest, 0)?, outcome_at(rest, 1)?)),
        _ => None,
    }
}

/// How many values tell one lease.
const LEASE: usize = 6;

fn lease(told: &[Value]) -> Option<Lease> {
    let span = |at| u64_at(told, at).map(Duration::from_millis);
    Some(Lease {
        handle: handle_at(told, 0)?,
        ticket: Ticket::unpack(bytes_at(told, 1)?).map(Box::new),
        // A repeat may come after the deadline: nothing is left then.
        left: span(2).unwrap_or_default(),
        till: span(3)?,
        cancel_asked: u64_at(told, 4)? == 1,
        request: bytes_at(told, 5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, Draft, Generation, Identity};

    /// What Redis answers where Lua's number is more than an integer of a reply can tell.
    const BEYOND: i64 = i64::MIN;
    const NOW: u64 = 1_800_000_000_000;

    fn left(deadline: u64, told: i64) -> Duration {
        let identity = Identity { tenant: "t".try_into().unwrap(), id: "i".try_into().unwrap() };
        let generation = Generation::from([3; 8]);
        let digest = Digest([0; 32]);
        let draft = Draft { generation, digest, deadline, not_before: 0, body_size: 0 };
        let ticket = draft.pack(&identity, "");
        let rest = [vec![b'h'; 32].as_slice().into(), Value::Bytes(ticket), told.into()]
            .into_iter()
            .chain([Value::Integer(1), Value::Integer(0), Value::Null]);
        let lease = read(b"lease", &rest.collect::<Vec<_>>()).unwrap();
        let ClaimReply::Claimed(claimed) = whole(vec![Part::Head(None, false, NOW), lease]) else {
            panic!("claimed")
        };
        claimed.leases[0].left
    }

    #[test]
    fn leases_are_told_whole_or_not_at_all() {
        let one = [vec![b'h'; 32].as_slice().into(), vec![0; 189].as_slice().into()];
        let one = one.into_iter().chain([5, 9, 1].map(Value::Integer)).chain([Value::Null]);
        let three: Vec<Value> = (0..3).flat_map(|_| one.clone()).collect();
        let told = |count| match read(b"lease", &three[..count]) {
            Some(Part::Leases(leases)) => Some(leases.len()),
            _ => None,
        };
        assert_eq!((told(6), told(12), told(18)), (Some(1), Some(2), Some(3)));
        assert!([1, 5, 7, 11, 17].into_iter().all(|count| told(count).is_none()));
    }

    #[test]
    fn a_deadline_beyond_all_numbers_has_not_passed() {
        assert_eq!(left(NOW + 5, 5), Duration::from_millis(5));
        assert_eq!(left(NOW - 5, -5), Duration::ZERO, "a repeat after the deadline");
        assert!(left(u64::MAX, BEYOND) > Duration::from_secs(1 << 40), "never is not at once");
    }
}
