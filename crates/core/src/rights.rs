//! What each role's user must be allowed in Redis, and what of it the user lacks.
//!
//! The list is made from what the scripts' own texts send and name; `need` adds what is sent beside them.

mod need;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    redis::Level,
    script::{self, May},
};

pub(crate) use need::{Right, all, durability};

/// A role, as rights are given to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Takes requests and operators' calls.
    Producer,
    /// Makes the calls.
    Worker,
    /// Recovers and looks after.
    Reclaimer,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Producer, Self::Worker, Self::Reclaimer];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Reclaimer => "reclaimer",
        }
    }
}

/// Everything that a role does in Redis, on the keys and channels of this shard, as ACL rules name it.
pub fn needs(role: Role, shard: &ShardKeys) -> Vec<String> {
    let keys = need::keys(role, shard).into_iter();
    keys.chain(need::all(role, shard)).map(|right| right.name).collect()
}

/// A shard that a role serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its keys.
    pub shard: ShardKeys,
    /// How safe answers about it are, above what Redis gives by itself.
    pub level: Option<Level>,
}

/// What a user lacks, each as an ACL rule names it: `zadd`, `script|load`, `~hf1:{chat/0}:pending`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// What the role cannot work without.
    pub needed: Vec<String>,
    /// What it does worse without: it sees ends and cancels by polling, knows nothing of the server, refuses a queue whose
    /// durability it can't prove.
    pub useful: Vec<String>,
}

/// How many keys that can't be reached are named.
const NAMED_KEYS: usize = 4;

/// What the user of `redis` lacks for a role that serves these shards.
///
/// Redis keeps it for [`Redis::trouble`] until it is asked again. A user that may not run scripts may not ask either: then
/// that alone is known to lack.
pub async fn lacking(redis: &Redis, role: Role, shards: &[Served]) -> Result<Lacking, StoreError> {
    let mut lacking = Lacking::default();
    for served in shards {
        let shard = &served.shard;
        match ask(redis, role, served, &mut lacking).await {
            Err(err) if err.lacks_right() => match err.denied_command() {
                Some(command) => {
                    lacking.add(command.to_owned(), true);
                    break;
                }
                // Of a key Redis says no name; this one was sent.
                None => lacking.add(format!("~{}", shard.meta), true),
            },
            asked => asked?,
        }
    }
    redis.note_lacking(role, &lacking.needed);
    Ok(lacking)
}

/// Asks about one shard: on Cluster each node has users of its own.
async fn ask(
    redis: &Redis,
    role: Role,
    Served { shard, level }: &Served,
    lacking: &mut Lacking,
) -> Result<(), StoreError> {
    let mut all: Vec<Right> = need::keys(role, shard);
    all.extend(need::all(role, shard));
    if let (Role::Producer, Some(level)) = (role, level) {
        let durability = need::durability().into_iter();
        all.extend(durability.filter(|(_, of)| of.contains(&level.word())).map(|(right, _)| right));
    }
    let words: Vec<script::Words> = all.iter().map(|right| right.words.clone()).collect();
    let answers = script::may(redis, &shard.meta, &words).await?;
    // A command on a key that can't be reached is not what lacks.
    let mut out_of_reach = BTreeSet::new();
    for (right, may) in all.into_iter().zip(answers) {
        if may == May::Yes || right.asked_key().is_some_and(|key| out_of_reach.contains(key)) {
            continue;
        }
        if let Some(key) = right.name.strip_prefix('~') {
            out_of_reach.insert(key.to_owned());
        }
        lacking.add(right.name, right.needed);
    }
    Ok(())
}

impl Lacking {
    /// Adds what is new. Of keys some are named: whoever lacks one mostly lacks all.
    fn add(&mut self, name: String, needed: bool) {
        let list = if needed { &mut self.needed } else { &mut self.useful };
        let keys = list.iter().filter(|it| it.starts_with('~')).count();
        let is_one_too_many = name.starts_with('~') && keys >= NAMED_KEYS;
        if !is_one_too_many && !list.contains(&name) {
            list.push(name);
        }
    }
}
