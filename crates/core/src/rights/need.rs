//! The list: what each role sends, and the words with which it is asked for.

use std::{collections::BTreeSet, sync::OnceLock};

use super::Role;
use crate::{
    keys::{OURS, QUEUES, ShardKeys, WORKERS},
    script::{self, Words},
};

/// Nobody has loaded a script of this name.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// One thing that a user must be allowed.
pub(crate) struct Right {
    /// As an ACL rule names it.
    pub(crate) name: String,
    /// The command and its words, with which it is asked for.
    pub(crate) words: Words,
    /// Whether the role cannot work without.
    pub(crate) needed: bool,
}

impl Right {
    /// The first key of ours that it is asked for with, if any.
    pub(super) fn asked_key(&self) -> Option<&str> {
        self.words.iter().map(String::as_str).find(|word| word.starts_with(OURS))
    }

    /// Whether a server may be older than its command.
    pub(crate) fn may_be_unknown(&self) -> bool {
        self.words.first().is_some_and(|command| command == "WAITAOF")
    }
}

impl Role {
    /// The scripts that it runs.
    pub(super) fn scripts(self) -> &'static [&'static str] {
        match self {
            Self::Producer => &[
                "submit", "read", "cancel", "depth", "policy", "register", "overrule", "promote",
                "reclaim", "redrive", "audit",
            ],
            Self::Worker => &["claim", "renew", "settle", "ring", "policy", "register"],
            Self::Reclaimer => &[
                "reclaim", "promote", "expire", "sweep", "depth", "overrule", "policy", "register",
            ],
        }
    }

    /// What it sends beside scripts.
    fn plain(self) -> &'static [&'static str] {
        match self {
            Self::Producer => &[
                "INFO",
                "HMGET",
                "HGETALL",
                "SSUBSCRIBE",
                "ZRANGE",
                "ZRANGEBYSCORE",
                "ZRANK",
                "ZCOUNT",
                "ZSCORE",
                "HSTRLEN",
            ],
            Self::Worker => &["INFO", "HGETALL", "HMGET", "EXISTS", "BLPOP", "SSUBSCRIBE"],
            Self::Reclaimer => &["INFO", "HGETALL", "HMGET"],
        }
    }

    /// The channel that it listens on.
    fn hears(self, shard: &ShardKeys) -> &str {
        match self {
            Self::Worker => &shard.cancel,
            Self::Producer | Self::Reclaimer => &shard.ended,
        }
    }
}

/// Everything that a role sends, on keys and channels of this shard.
pub(crate) fn all(role: Role, shard: &ShardKeys) -> Vec<Right> {
    said(role).commands.iter().filter_map(|it| command(role, it, shard)).collect()
}

/// What the texts of a role's scripts say.
struct Said {
    /// Every command that the role cannot do without, or only worse, as Redis knows it.
    commands: BTreeSet<String>,
    /// The names of all keys.
    keys: BTreeSet<&'static str>,
}

/// The texts are long and never change: they are read once.
fn said(role: Role) -> &'static Said {
    static SAID: [OnceLock<Said>; Role::ALL.len()] = [const { OnceLock::new() }; Role::ALL.len()];
    SAID[role as usize].get_or_init(|| {
        let own = [script::RUN, script::RUN_TEXT, "SCRIPT"];
        let mut commands: BTreeSet<String> =
            own.iter().chain(role.plain()).map(|it| (*it).to_owned()).collect();
        commands.extend(role.scripts().iter().flat_map(|name| script::commands(name)));
        let keys = role.scripts().iter().flat_map(|it| script::key_names(it)).collect();
        Said { commands, keys }
    })
}

/// The right to a command, on keys and channels of this shard.
fn command(role: Role, command: &str, shard: &ShardKeys) -> Option<Right> {
    let meta = shard.meta.as_str();
    let words: &[&str] = match command {
        script::RUN => &[NO_SCRIPT, "1", meta],
        script::RUN_TEXT => &["return 1", "1", meta],
        "SCRIPT" => &["LOAD", "return 1"],
        "INFO" => &["server"],
        "TIME" => &[],
        "HGETALL" => &[QUEUES],
        "HLEN" => &[meta],
        "HGET" | "HMGET" | "HDEL" | "HEXISTS" | "HSTRLEN" => &[meta, "doctor"],
        "HSET" | "HINCRBY" => &[meta, "doctor", "1"],
        "HRANDFIELD" => &[meta, "1"],
        "EXISTS" | "LLEN" | "DEL" => &[&shard.bell],
        "RPUSH" | "BLPOP" => &[&shard.bell, "1"],
        "ZCARD" => &[&shard.pending],
        "ZRANGE" | "ZRANGEBYSCORE" | "ZCOUNT" | "ZREMRANGEBYRANK" => &[&shard.pending, "0", "0"],
        "ZREM" | "ZSCORE" | "ZMSCORE" | "ZRANK" => &[&shard.pending, "doctor"],
        "ZADD" => &[&shard.pending, "1", "doctor"],
        "SPUBLISH" => &[&shard.ended, "doctor"],
        "SSUBSCRIBE" => &[role.hears(shard)],
        _ => return None,
    };
    let name = match command {
        "SCRIPT" => "script|load".to_owned(),
        other => other.to_ascii_lowercase(),
    };
    let needed = !matches!(command, "INFO" | "SPUBLISH" | "SSUBSCRIBE");
    Some(Right { name, words: asked(command, words), needed })
}

/// The rights to all keys that the role's scripts name, and to the registries: running a script asks for each of its keys.
pub(super) fn keys(role: Role, shard: &ShardKeys) -> Vec<Right> {
    let keys = said(role).keys.iter().filter_map(|name| match *name {
        "queues" => Some(QUEUES),
        other => shard.named(other),
    });
    // A reclaimer shows itself to nobody.
    let workers = (role != Role::Reclaimer).then_some(WORKERS);
    keys.chain(workers)
        .map(|key| Right {
            name: format!("~{key}"),
            words: asked(script::RUN, &[NO_SCRIPT, "1", key]),
            needed: true,
        })
        .collect()
}

/// The rights that answers take which are safer than Redis makes them by itself, each with the `durability` that it is for. No
/// server has to know them.
pub(crate) fn durability() -> [(Right, &'static [&'static str]); 4] {
    let right = |name: &str, words: &[&str]| {
        let (command, rest) = words.split_first().unwrap_or((&"", &[]));
        Right { name: name.to_owned(), words: asked(command, rest), needed: false }
    };
    [
        (right("client|setname", &["CLIENT", "SETNAME", "doctor"]), &["fsynced", "replicated"]),
        (right("client|getname", &["CLIENT", "GETNAME"]), &["fsynced", "replicated"]),
        (right("waitaof", &["WAITAOF", "0", "0", "1"]), &["fsynced"]),
        (right("wait", &["WAIT", "0", "1"]), &["replicated"]),
    ]
}

fn asked(command: &str, words: &[&str]) -> Words {
    let mut all = Words::default();
    for (place, word) in all.iter_mut().zip([command].iter().chain(words)) {
        (*word).clone_into(place);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::QueueName;

    fn shard() -> ShardKeys {
        ShardKeys::new(&QueueName::try_from("q").unwrap(), 0)
    }

    #[test]
    fn every_command_of_every_role_can_be_asked_for() {
        for role in Role::ALL {
            for name in &said(role).commands {
                assert!(command(role, name, &shard()).is_some(), "{}: {name}", role.word());
            }
        }
    }

    #[test]
    fn a_role_needs_what_its_scripts_do_and_no_more() {
        let [producer, worker, reclaimer] = Role::ALL.map(|role| &said(role).commands);
        assert!(worker.contains("BLPOP") && !producer.contains("BLPOP"));
        assert!(worker.contains("DEL"), "claim clears the bell");
        assert!(reclaimer.contains("HRANDFIELD"), "sweep draws rows of sessions");
        assert!(producer.contains("HINCRBY"), "what ends is counted");
        for all in [producer, worker, reclaimer] {
            assert!(all.contains(script::RUN) && all.contains("TIME") && all.contains("ZADD"));
        }
    }

    /// In one process with the two others it has no user of its own, and they ask for what it needs.
    #[test]
    fn a_reclaimer_needs_no_command_that_neither_of_the_others_does() {
        let [producer, worker, reclaimer] = Role::ALL.map(|role| &said(role).commands);
        let others: BTreeSet<_> = producer.union(worker).cloned().collect();
        assert!(reclaimer.is_subset(&others), "{reclaimer:?}");
    }

    #[test]
    fn every_script_is_run_by_some_role() {
        let run: BTreeSet<&str> =
            Role::ALL.iter().flat_map(|role| role.scripts()).copied().collect();
        let all: BTreeSet<&str> = script::all().iter().map(|script| script.name).collect();
        assert_eq!(run, all);
    }

    #[test]
    fn a_role_reaches_the_keys_that_its_scripts_name() {
        let of = |role| keys(role, &shard()).into_iter().map(|it| it.name).collect::<Vec<_>>();
        let [producer, worker, reclaimer] = Role::ALL.map(of);
        assert_eq!(producer.len(), 16, "{producer:?}");
        for all in [&producer, &worker, &reclaimer] {
            assert!(all.contains(&"~hf1:queues".to_owned()), "{all:?}");
            assert!(all.contains(&"~hf1:{q/0}:pending".to_owned()), "{all:?}");
        }
        let sessions = "~hf1:{q/0}:sessions".to_owned();
        assert!(worker.contains(&sessions) && reclaimer.contains(&sessions));
        assert!(!producer.contains(&sessions), "it claims nothing");
        assert!(!reclaimer.contains(&"~hf1:workers".to_owned()));
    }

    #[test]
    fn every_key_that_a_script_names_is_one_of_ours() {
        let names = Role::ALL.iter().flat_map(|role| role.scripts());
        for name in names.flat_map(|script| script::key_names(script)) {
            assert!(name == "queues" || shard().named(name).is_some(), "{name}");
        }
    }
}
