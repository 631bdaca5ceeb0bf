//! What Redis holds, read key by key past everything of ours.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_testkit::{RedisServer, Value};

use crate::ledger::Forgotten;

/// The shards of the queue.
const SHARDS: usize = 2;
/// Where a request lives.
const LIVE: [&str; 4] = ["pending", "suspects", "delayed", "leased"];
/// Where its record is.
const ENDED: [&str; 2] = ["finished", "dead"];

/// Handles of one shard by the set they are in.
struct Shard {
    number: usize,
    sets: BTreeMap<&'static str, Vec<Vec<u8>>>,
}

impl Shard {
    async fn read(redis: &RedisServer, number: usize) -> Self {
        let mut sets = BTreeMap::new();
        for set in LIVE.into_iter().chain(ENDED) {
            let members = redis.command(&["ZRANGE", &key(number, set), "0", "-1"]).await;
            let handle = |member: &Value| {
                let member = member.bytes().expect("a member");
                // A lease names its fence first.
                member[member.len() - 32..].to_vec()
            };
            let members = members.array().expect("members").iter().map(handle).collect();
            sets.insert(set, members);
        }
        Self { number, sets }
    }

    fn generations(&self, sets: &[&'static str]) -> Vec<String> {
        let handles = sets.iter().flat_map(|set| &self.sets[set]);
        handles.map(|handle| hex(&handle[8..16])).collect()
    }
}

/// Of what clients were told was kept, and ended, what Redis does not know any more.
pub(crate) async fn forgotten(
    redis: &RedisServer,
    kept: &BTreeSet<String>,
    ended: &BTreeSet<String>,
) -> Forgotten {
    let (mut live, mut over) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..SHARDS {
        let shard = Shard::read(redis, number).await;
        live.extend(shard.generations(&LIVE));
        over.extend(shard.generations(&ENDED));
    }
    Forgotten {
        requests: kept
            .iter()
            .filter(|it| !live.contains(*it) && !over.contains(*it))
            .cloned()
            .collect(),
        ends: ended.intersection(&live).cloned().collect(),
        looks: Vec::new(),
    }
}

/// How many requests live.
pub(crate) async fn live(redis: &RedisServer) -> usize {
    let mut live = 0;
    for number in 0..SHARDS {
        live += Shard::read(redis, number).await.generations(&LIVE).len();
    }
    live
}

/// What is wrong in the keys once everything has ended.
pub(crate) async fn audit(redis: &RedisServer) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for number in 0..SHARDS {
        let shard = Shard::read(redis, number).await;
        for set in LIVE {
            let left = shard.sets[set].len();
            if left > 0 {
                wrong.push(format!("{} of shard {number} holds {left}", set));
            }
        }
        for generation in shard.generations(&ENDED) {
            if !seen.insert(generation.clone()) {
                wrong.push(format!("generation {generation} has ended twice"));
            }
        }
        wrong.extend(shard.fields(redis).await);
    }
    wrong
}

impl Shard {
    /// Tickets and records are those of the ended, bodies those of the dead.
    async fn fields(&self, redis: &RedisServer) -> Vec<String> {
        let keys = |sets: &[&'static str]| -> BTreeSet<Vec<u8>> {
            let handles = sets.iter().flat_map(|set| &self.sets[set]);
            handles.map(|handle| handle[16..].to_vec()).collect()
        };
        let wanted =
            [("ticket", keys(&ENDED)), ("result", keys(&ENDED)), ("request", keys(&["dead"]))];
        let mut wrong = Vec::new();
        for (hash, wanted) in wanted {
            let fields = redis.command(&["HKEYS", &key(self.number, hash)]).await;
            let fields = fields.array().expect("fields").iter();
            let fields: BTreeSet<Vec<u8>> =
                fields.map(|field| field.bytes().expect("a field").to_vec()).collect();
            let (more, less) =
                (fields.difference(&wanted).count(), wanted.difference(&fields).count());
            if more + less > 0 {
                let shard = self.number;
                wrong.push(format!("{hash} of shard {shard} has {more} too many and lacks {less}"));
            }
        }
        wrong
    }
}

fn key(shard: usize, name: &str) -> String {
    format!("hf1:{{q/{shard}}}:{name}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
