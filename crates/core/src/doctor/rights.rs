//! What each role's user may not do of what the role does: asked by `ACL DRYRUN`, or tried where that is not allowed.

mod durability;

use std::collections::BTreeSet;

use fred::types::Value;
use serde::{Deserialize, Serialize};

use super::{Grade, Report};
use crate::{
    Redis, StoreError,
    error::Refusal,
    keys::{QUEUES, ShardKeys, WORKERS},
    model::QueueName,
    redis::slot_of,
    script,
};

const CALL: &str = "rights";

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

    /// The scripts that it runs.
    fn scripts(self) -> &'static [&'static str] {
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
            Self::Worker => &["INFO", "HMGET", "BLPOP", "SSUBSCRIBE"],
            Self::Reclaimer => &["HGETALL", "HMGET"],
        }
    }

    /// Every command that it cannot do without, or only slower.
    pub(super) fn commands(self) -> BTreeSet<String> {
        let mut all: BTreeSet<String> =
            [script::RUN, "SCRIPT"].iter().chain(self.plain()).map(|it| (*it).to_owned()).collect();
        all.extend(self.scripts().iter().flat_map(|name| script::commands(name)));
        all
    }
}

/// Looks at the rights of every role; `shard` lends its keys, or made-up ones of the same form do.
pub(super) async fn look(
    redis: &Redis,
    shard: Option<&ShardKeys>,
    users: &[(Role, String)],
    report: &mut Report,
) -> Result<(), StoreError> {
    let made_up = QueueName::try_from("doctor").ok().map(|name| ShardKeys::new(&name, 0));
    let Some(keys) = shard.or(made_up.as_ref()) else { return Ok(()) };
    let own = whoami(redis).await?;
    for role in Role::ALL {
        let named = users.iter().find(|(of, _)| *of == role).map(|(_, user)| user.clone());
        let user = named.clone().or_else(|| own.clone());
        let place = format!("{} (user {})", role.word(), user.as_deref().unwrap_or("that asks"));
        for command in role.commands() {
            match may(redis, user.as_deref(), named.is_some(), &command, keys).await? {
                Answer::Yes => {}
                Answer::No => lacks(report, &place, &command),
                Answer::NoSuchUser => {
                    let told = "Redis knows no user of this name";
                    report.add(Grade::Fault, "no-such-user", &place, told);
                    break;
                }
                Answer::Unknown => {
                    let told = "its rights cannot be looked at: give this user ACL DRYRUN, or ask as an administrator";
                    report.add(Grade::Note, "rights-unknown", &place, told);
                    break;
                }
            }
        }
        if role == Role::Producer {
            let asks = Asks { redis, user: user.as_deref(), is_other: named.is_some(), keys };
            durability::look(&asks, &place, report).await?;
        }
    }
    Ok(())
}

/// Whose rights are asked for.
struct Asks<'a> {
    redis: &'a Redis,
    user: Option<&'a str>,
    is_other: bool,
    keys: &'a ShardKeys,
}

fn lacks(report: &mut Report, place: &str, command: &str) {
    // Without channels ends and cancels are seen by polling; nothing else is lost.
    let (grade, name) = match command {
        "SPUBLISH" | "SSUBSCRIBE" => (Grade::Warning, "channel-denied"),
        _ => (Grade::Fault, "command-denied"),
    };
    let told = "may not do what the role does, on keys or channels of ours; grant the commands that are named";
    report.add_one(grade, name, place, told, Some(command.to_owned()));
}

enum Answer {
    Yes,
    No,
    NoSuchUser,
    Unknown,
}

/// Who asks; none if that may not be asked.
async fn whoami(redis: &Redis) -> Result<Option<String>, StoreError> {
    match redis.call("ACL", None, vec!["WHOAMI".into()]).await.map_err(|err| err.named(CALL)) {
        Ok(value) => Ok(value.into_string()),
        Err(err) if err.refusal().is_some() => Ok(None),
        Err(err) => Err(err),
    }
}

async fn may(
    redis: &Redis,
    user: Option<&str>,
    is_other: bool,
    command: &str,
    keys: &ShardKeys,
) -> Result<Answer, StoreError> {
    let Some(sample) = sample(command, keys) else { return Ok(Answer::Yes) };
    answered(redis, (user, is_other), command, sample, keys).await
}

/// Asks for a command with these arguments.
async fn answered(
    redis: &Redis,
    (user, is_other): (Option<&str>, bool),
    command: &str,
    sample: Sample,
    keys: &ShardKeys,
) -> Result<Answer, StoreError> {
    if let Some(user) = user {
        let mut words: Vec<Value> = ["DRYRUN", user, command].map(Value::from).to_vec();
        words.extend(sample.whole.into_iter().map(Value::from));
        match redis.call("ACL", None, words).await.map_err(|err| err.named(CALL)) {
            Ok(value) if value.as_str().as_deref() == Some("OK") => return Ok(Answer::Yes),
            Ok(_) => return Ok(Answer::No),
            Err(err) => match err.refusal() {
                Some(Refusal::Denied) => {}
                Some(_) if is_other => return Ok(Answer::NoSuchUser),
                Some(_) => {}
                None => return Err(err),
            },
        }
    }
    // What another user may do is not found out by trying.
    if is_other {
        return Ok(Answer::Unknown);
    }
    let Some((name, words)) = sample.harmless else { return Ok(Answer::Yes) };
    let words: Vec<Value> = words.into_iter().map(Value::from).collect();
    let slot = Some(slot_of(&keys.meta));
    match redis.call(name, slot, words).await.map_err(|err| err.named(CALL)) {
        Err(err) if err.refusal() == Some(Refusal::Denied) => Ok(Answer::No),
        Err(err) if err.refusal().is_none() => Err(err),
        // Whatever else Redis says, it let the command in.
        _ => Ok(Answer::Yes),
    }
}

/// Arguments with which a command is asked for.
struct Sample {
    /// As the roles call it.
    whole: Vec<String>,
    /// So that it changes nothing, even where it is allowed; none: there is no such way.
    harmless: Option<(&'static str, Vec<String>)>,
}

fn sample(command: &str, keys: &ShardKeys) -> Option<Sample> {
    let meta = keys.meta.as_str();
    let with = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let read = |name: &'static str, words: &[&str]| {
        Some(Sample { whole: with(words), harmless: Some((name, with(words))) })
    };
    let wrong = |name: &'static str, whole: &[&str], words: &[&str]| {
        Some(Sample { whole: with(whole), harmless: Some((name, with(words))) })
    };
    let untried = |words: &[&str]| Some(Sample { whole: with(words), harmless: None });
    match command {
        // Nobody has loaded a script of this name.
        script::RUN => read(script::RUN, &["0000000000000000000000000000000000000000", "1", meta]),
        "SCRIPT" => read("SCRIPT", &["LOAD", "return 1"]),
        "INFO" => read("INFO", &["server"]),
        "TIME" => read("TIME", &[]),
        "HGETALL" => read("HGETALL", &[QUEUES]),
        "HLEN" => read("HLEN", &[meta]),
        "HGET" => read("HGET", &[meta, "doctor"]),
        "HMGET" => read("HMGET", &[meta, "doctor"]),
        "HDEL" => read("HDEL", &[meta, "doctor"]),
        "HEXISTS" => read("HEXISTS", &[meta, "doctor"]),
        "HSTRLEN" => read("HSTRLEN", &[meta, "doctor"]),
        "HRANDFIELD" => read("HRANDFIELD", &[WORKERS, "1"]),
        "EXISTS" => read("EXISTS", &[&keys.bell]),
        "LLEN" => read("LLEN", &[&keys.bell]),
        // Reserved, so that there is nothing under it.
        "DEL" => read("DEL", &[&keys.aside]),
        "ZCARD" => read("ZCARD", &[&keys.pending]),
        "ZRANGE" => read("ZRANGE", &[&keys.pending, "0", "0"]),
        "ZRANGEBYSCORE" => read("ZRANGEBYSCORE", &[&keys.pending, "1", "0"]),
        "ZREM" => read("ZREM", &[&keys.pending, "doctor"]),
        "ZSCORE" => read("ZSCORE", &[&keys.pending, "doctor"]),
        "ZRANK" => read("ZRANK", &[&keys.pending, "doctor"]),
        "ZCOUNT" => read("ZCOUNT", &[&keys.pending, "1", "0"]),
        "SPUBLISH" => read("SPUBLISH", &[&keys.ended, ""]),
        // Rights are looked at before arguments are.
        "HSET" => wrong("HSET", &[meta, "doctor", "1"], &[meta, "doctor", "1", "odd"]),
        "HINCRBY" => wrong("HINCRBY", &[meta, "doctor", "1"], &[meta, "doctor", "no number"]),
        "ZADD" => {
            wrong("ZADD", &[&keys.pending, "1", "doctor"], &[&keys.pending, "no number", "doctor"])
        }
        "BLPOP" => wrong("BLPOP", &[&keys.bell, "1"], &[&keys.bell, "no number"]),
        "RPUSH" => untried(&[&keys.bell, "1"]),
        "SSUBSCRIBE" => untried(&[&keys.ended]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_every_role_can_be_asked_for() {
        let keys = ShardKeys::new(&QueueName::try_from("q").unwrap(), 0);
        for role in Role::ALL {
            for command in role.commands() {
                assert!(sample(&command, &keys).is_some(), "{}: {command}", role.word());
            }
        }
    }

    #[test]
    fn a_role_needs_what_its_scripts_do_and_no_more() {
        let [producer, worker, reclaimer] = Role::ALL.map(Role::commands);
        assert!(worker.contains("BLPOP") && !producer.contains("BLPOP"));
        assert!(worker.contains("DEL"), "claim clears the bell");
        assert!(reclaimer.contains("HRANDFIELD"), "sweep draws rows of sessions");
        assert!(producer.contains("HINCRBY"), "submit numbers requests");
        for all in [producer, worker, reclaimer] {
            assert!(all.contains(script::RUN) && all.contains("TIME") && all.contains("ZADD"));
        }
    }

    #[test]
    fn every_script_is_run_by_some_role() {
        let run: BTreeSet<&str> =
            Role::ALL.iter().flat_map(|role| role.scripts()).copied().collect();
        let all: BTreeSet<&str> = script::all().iter().map(|script| script.name).collect();
        assert_eq!(run, all);
    }
}
