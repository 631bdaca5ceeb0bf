//! `audit`: everything that is kept under keys, for whoever looks whether it fits together.

use super::{Script, bytes_at, score_at, u64_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Home, Key, Ticket},
};

pub(super) static AUDIT: Script<9, 0, 1> =
    Script::new("audit", include_str!("../../lua/audit.lua"));

/// Looks at requests of one shard.
pub struct Audit<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// Which.
    pub keys: &'a [Key],
}

/// A ticket, as far as it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paper {
    /// It can be read.
    Whole(Box<Ticket>),
    /// It is there, and cannot be read.
    Broken,
    /// It is not there.
    Lost,
}

/// What is kept under one key, seen at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its ticket.
    pub paper: Paper,
    /// The length of its request; 0: there is none.
    pub request: u64,
    /// The length of its record; 0: there is none.
    pub result: u64,
    /// The homes that its handle is in, with its score in each; none where the ticket does not tell the handle.
    pub homes: Vec<(Home, u64)>,
}

impl Audit<'_> {
    /// Runs the script: one reply a key, in their order; none where nothing is kept.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<Option<Kept>>, StoreError> {
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
        ]
        .map(String::as_str);
        let rows = self.keys.iter().map(|key| [key.bytes()]).collect();
        AUDIT
            .run(redis, keys, [], rows, |word, rest| match word {
                b"none" => Some(None),
                b"kept" => {
                    let paper = match rest.first()?.as_bytes()? {
                        b"whole" => Ticket::unpack(bytes_at(rest, 1)?)
                            .map_or(Paper::Broken, |ticket| Paper::Whole(Box::new(ticket))),
                        b"broken" => Paper::Broken,
                        b"lost" => Paper::Lost,
                        _ => return None,
                    };
                    let (pairs, []) = rest.get(4..)?.as_chunks::<2>() else { return None };
                    let home = |pair: &[fred::types::Value; 2]| {
                        Some((Home::from_word(pair[0].as_bytes()?)?, score_at(pair, 1)?))
                    };
                    let homes: Option<Vec<_>> = pairs.iter().map(home).collect();
                    let (request, result) = (u64_at(rest, 2)?, u64_at(rest, 3)?);
                    Some(Some(Kept { paper, request, result, homes: homes? }))
                }
                _ => None,
            })
            .await
    }
}
