//! `overrule`: an operator's pause or limit, which wins over the policy until it is cleared.

use std::num::NonZeroU32;

use bytes::Bytes;

use super::{Script, number, u64_at};
use crate::{Redis, StoreError, keys::ShardKeys, model::share};

pub(super) static OVERRULE: Script<2, 5> =
    Script::new("overrule", include_str!("../../lua/overrule.lua"));

/// What an operator says over the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Override {
    /// Claims are stopped, or not.
    Paused(bool),
    /// How many may be leased at once over all shards; none: as the settings say.
    Limit(Option<u64>),
}

/// How the word is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverruleMode {
    /// By shard 0, if the version is the one that the caller saw.
    Decide,
    /// By the other shards, if theirs is smaller.
    Take,
}

/// Says something to one shard.
pub struct Overrule<'a> {
    /// The shard.
    pub shard: &'a ShardKeys,
    /// Of how many.
    pub shards: NonZeroU32,
    /// What is said.
    pub word: Override,
    /// How it is taken.
    pub mode: OverruleMode,
    /// The version seen (decide) or given (take).
    pub version: u64,
}

/// What the shard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverruleReply {
    /// This, now.
    Set(u64),
    /// This, before already.
    Already(u64),
    /// Somebody was faster.
    Newer(u64),
}

impl Overrule<'_> {
    /// Runs the script.
    pub async fn run(&self, redis: &Redis) -> Result<OverruleReply, StoreError> {
        let (field, value, total) = match self.word {
            Override::Paused(paused) => {
                ("paused", if paused { number(1) } else { Bytes::new() }, Bytes::new())
            }
            Override::Limit(None) => ("limit", Bytes::new(), Bytes::new()),
            Override::Limit(Some(limit)) => {
                ("limit", number(share(limit, self.shard.shard, self.shards)), number(limit))
            }
        };
        let mode = match self.mode {
            OverruleMode::Decide => "decide",
            OverruleMode::Take => "take",
        };
        let head = [
            Bytes::from_static(field.as_bytes()),
            Bytes::from_static(mode.as_bytes()),
            number(self.version),
            value,
            total,
        ];
        let keys = [&self.shard.meta, &self.shard.bell].map(String::as_str);
        OVERRULE
            .run_once(redis, keys, head, |word, rest| {
                let version = u64_at(rest, 0)?;
                match word {
                    b"set" => Some(OverruleReply::Set(version)),
                    b"already" => Some(OverruleReply::Already(version)),
                    b"newer" => Some(OverruleReply::Newer(version)),
                    _ => None,
                }
            })
            .await
    }
}
