//! `submit`: take in new requests, each under its id.

use std::{num::NonZeroU32, time::Duration};

use bytes::Bytes;

use super::{Script, bytes_at, home_at, millis};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Draft, Home, Key, Request, Ticket, Undecodable, share},
};

pub(super) static SUBMIT: Script<11, 2, 3> =
    Script::new("submit", include_str!("../../lua/submit.lua"));

/// A repeat that meets a kept record keeps it for at least this long: a producer repeats a call for at most a minute, so
/// no late copy outlives the record that guards it.
const GUARD: Duration = Duration::from_secs(600);

/// One request as the script takes it. Made once; a repeat sends the same.
#[derive(Clone, Debug)]
pub struct Submission {
    key: Key,
    ticket: Bytes,
    request: Bytes,
    limits: LaneLimits,
}

/// What a lane may have: a tenant's limits, in one queue. None: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneLimits {
    /// Requests that have not ended.
    pub requests: Option<u64>,
    /// Bytes of requests and records.
    pub bytes: Option<u64>,
    /// Submits that are accepted in a second; as many can be at once.
    pub rate: Option<u64>,
}

impl LaneLimits {
    /// The part of one shard in limits that hold for all of them.
    pub fn part(self, shard: u32, shards: NonZeroU32) -> Self {
        let part = |limit: Option<u64>| limit.map(|limit| share(limit, shard, shards));
        Self { requests: part(self.requests), bytes: part(self.bytes), rate: part(self.rate) }
    }

    /// As the script takes them.
    fn pack(self) -> [[u8; 8]; 3] {
        // A part of 0 would be none: settings that split so are refused.
        let number = |limit: Option<u64>| limit.map_or(0, |limit| limit.max(1)).to_be_bytes();
        [self.requests, self.bytes, self.rate].map(number)
    }
}

impl Submission {
    /// Packs a request that lies at `key`.
    pub fn new(key: Key, draft: &Draft, request: &Request) -> Result<Self, Undecodable> {
        let ticket = draft.pack(&request.identity, &request.lane);
        Ok(Self { key, ticket, request: request.pack()?, limits: LaneLimits::default() })
    }

    /// The same under the limits of its lane in its shard.
    pub fn limited(self, limits: LaneLimits) -> Self {
        Self { limits, ..self }
    }

    /// How many bytes of a call it takes.
    pub fn size(&self) -> usize {
        self.ticket.len() + self.request.len()
    }

    /// Its field in the shard.
    pub fn key(&self) -> Key {
        self.key
    }
}

/// Takes in requests of one shard, as many as there are in one call.
pub struct Submit<'a> {
    /// The shard they go to.
    pub shard: &'a ShardKeys,
    /// What is submitted.
    pub items: &'a [Submission],
}

/// What a queue holds up to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullOf {
    /// Requests that have not ended.
    Requests,
    /// Bytes of requests and records.
    Bytes,
}

/// The limit that a submission meets in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOf {
    /// Requests that have not ended.
    Requests,
    /// Bytes of requests and records.
    Bytes,
    /// Accepted submits a second.
    Rate,
}

/// What became of one submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitReply {
    /// New.
    Accepted(Box<Ticket>),
    /// Accepted before, and here is where it is; none: its membership was lost.
    Known(Option<Home>, Box<Ticket>),
    /// Other bytes live under this id.
    Reused(Option<Home>, Box<Ticket>),
    /// The queue is full.
    Full(FullOf),
    /// Its lane is at a limit.
    Over(LimitOf),
    /// The deadline has passed.
    Late,
    /// Nobody has written the queue's policy since Redis forgot it.
    Undeclared,
    /// Somebody has made a counter that it goes by hold no number: doctor tells which.
    Spoiled,
}

/// What the script answers to one row.
enum Answered {
    /// Accepted: its number in the shard, and when. All else of its ticket is what was sent.
    Accepted { sequence: u64, now: u64 },
    /// All else, by its word.
    Told(SubmitReply),
}

impl Answered {
    fn accepted(bytes: &[u8]) -> Option<Self> {
        let (sequence, now) = bytes.split_first_chunk()?;
        let now = now.try_into().ok()?;
        Some(Self::Accepted {
            sequence: u64::from_be_bytes(*sequence),
            now: u64::from_be_bytes(now),
        })
    }

    fn of(self, item: &Submission) -> Option<SubmitReply> {
        match self {
            Self::Accepted { sequence, now } => {
                let ticket = Ticket::unpack(item.ticket.clone()).ok()?;
                let ticket = Ticket { sequence, submitted_at: now, ..ticket };
                Some(SubmitReply::Accepted(Box::new(ticket)))
            }
            Self::Told(reply) => Some(reply),
        }
    }
}

impl Submit<'_> {
    /// What the lanes of all may have; nothing, where none has a limit.
    fn limits(&self) -> Bytes {
        if self.items.iter().all(|item| item.limits == LaneLimits::default()) {
            return Bytes::new();
        }
        let limits: Vec<u8> =
            self.items.iter().flat_map(|item| item.limits.pack()).flatten().collect();
        limits.into()
    }

    /// Runs the script: one reply an item, in their order.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<SubmitReply>, StoreError> {
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
            &shard.meta,
            &shard.lanes,
            &shard.bell,
        ]
        .map(String::as_str);
        let row = |it: &Submission| [it.key.bytes(), it.ticket.clone(), it.request.clone()];
        let rows = self.items.iter().map(row).collect();
        let answers = SUBMIT
            .run(redis, keys, [millis(GUARD), self.limits()], rows, |word, rest| {
                let ticket = |at| Ticket::unpack(bytes_at(rest, at)?).ok().map(Box::new);
                let told = match word {
                    b"known" => Some(SubmitReply::Known(home_at(rest, 0)?, ticket(1)?)),
                    b"reused" => Some(SubmitReply::Reused(home_at(rest, 0)?, ticket(1)?)),
                    b"full" => match rest.first()?.as_bytes()? {
                        b"requests" => Some(SubmitReply::Full(FullOf::Requests)),
                        b"bytes" => Some(SubmitReply::Full(FullOf::Bytes)),
                        _ => None,
                    },
                    b"over" => match rest.first()?.as_bytes()? {
                        b"requests" => Some(SubmitReply::Over(LimitOf::Requests)),
                        b"bytes" => Some(SubmitReply::Over(LimitOf::Bytes)),
                        b"rate" => Some(SubmitReply::Over(LimitOf::Rate)),
                        _ => None,
                    },
                    b"late" => Some(SubmitReply::Late),
                    b"undeclared" => Some(SubmitReply::Undeclared),
                    b"spoiled" => Some(SubmitReply::Spoiled),
                    _ if rest.is_empty() => return Answered::accepted(word),
                    _ => None,
                };
                told.map(Answered::Told)
            })
            .await?;
        let replies = self.items.iter().zip(answers).map(|(item, answer)| answer.of(item));
        let replies: Option<Vec<_>> = replies.collect();
        replies.ok_or(StoreError::Reply { call: SUBMIT.name })
    }
}
