//! What each role's user may not do of what the role does: the user that asks by a script, others by `ACL DRYRUN`.

use fred::types::Value;

use super::{Grade, Report};
use crate::{
    Redis, StoreError,
    error::Refusal,
    keys::ShardKeys,
    model::QueueName,
    rights::{self, Right, Role},
    script::{self, May},
};

const CALL: &str = "rights";

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
        let named = users.iter().find(|(of, _)| *of == role).map(|(_, user)| user.as_str());
        let name = named.or(own.as_deref()).unwrap_or("that asks");
        let asks = Asks { redis, other: named, keys };
        let mut found = Found { report, place: format!("{} (user {name})", role.word()) };
        if !found.look(&asks, rights::all(role, keys)).await? || role != Role::Producer {
            continue;
        }
        found.look_for_durability(&asks).await?;
    }
    Ok(())
}

/// Whose rights are asked for: of another user, or of the one that asks.
struct Asks<'a> {
    redis: &'a Redis,
    other: Option<&'a str>,
    keys: &'a ShardKeys,
}

/// Where what is found is told.
struct Found<'a> {
    report: &'a mut Report,
    place: String,
}

enum Answer {
    May(May),
    NoSuchUser,
    NotTold,
}

impl Found<'_> {
    /// Looks at what the role does. Says whether it could be looked at.
    async fn look(&mut self, asks: &Asks<'_>, all: Vec<Right>) -> Result<bool, StoreError> {
        let answers = match asks.about(&all).await {
            Err(err) if err.refusal() == Some(Refusal::Denied) => {
                // Who may run no script may not ask what else it may not.
                let lacks = err.denied_command().unwrap_or("evalsha").to_ascii_uppercase();
                self.lacks(&lacks, true);
                return Ok(false);
            }
            answers => answers?,
        };
        for (right, answer) in all.into_iter().zip(answers) {
            match answer {
                // A server that has no such command lets nobody in.
                Answer::May(May::No | May::Unknown) => {
                    self.lacks(&right.name.to_ascii_uppercase(), right.needed);
                }
                Answer::May(May::Yes) => {}
                Answer::NoSuchUser => {
                    let told = "Redis knows no user of this name";
                    self.report.add(Grade::Fault, "no-such-user", &self.place, told);
                    return Ok(false);
                }
                Answer::NotTold => {
                    let told = "its rights cannot be looked at: give this user ACL DRYRUN, or ask as an administrator";
                    self.report.add(Grade::Note, "rights-unknown", &self.place, told);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn lacks(&mut self, command: &str, needed: bool) {
        // Without channels ends and cancels are seen by polling; nothing else is lost.
        let name = match command {
            "SPUBLISH" | "SSUBSCRIBE" => "channel-denied",
            _ => "command-denied",
        };
        let grade = if needed { Grade::Fault } else { Grade::Warning };
        let told = "may not do what the role does, on keys or channels of ours; grant the commands that are named";
        self.report.add_one(grade, name, &self.place, told, Some(command.to_owned()));
    }

    /// Looks at what only queues with a higher durability take.
    async fn look_for_durability(&mut self, asks: &Asks<'_>) -> Result<(), StoreError> {
        let (all, levels): (Vec<_>, Vec<_>) = rights::durability().into_iter().unzip();
        let answers = asks.about(&all).await?;
        for ((right, levels), answer) in all.iter().zip(levels).zip(answers) {
            // A server that does not know the command has no such level, and no right to lack.
            if let Answer::May(May::No) = answer {
                let told = "may not do what answers at a higher durability take; only queues with durability fsynced or replicated need it";
                let right = format!("{} ({})", right.name, levels.join(", "));
                self.report.add_one(
                    Grade::Note,
                    "durability-rights",
                    &self.place,
                    told,
                    Some(right),
                );
            }
        }
        Ok(())
    }
}

impl Asks<'_> {
    /// One answer a right; after one that is none of a right no more.
    async fn about(&self, all: &[Right]) -> Result<Vec<Answer>, StoreError> {
        let Some(user) = self.other else {
            let words: Vec<script::Words> = all.iter().map(|right| right.words.clone()).collect();
            let answers = script::may(self.redis, &self.keys.meta, &words).await?;
            return Ok(answers.into_iter().map(Answer::May).collect());
        };
        let mut answers = Vec::with_capacity(all.len());
        for right in all {
            let answer = self.dry_run(user, right).await?;
            let is_last = !matches!(answer, Answer::May(_));
            answers.push(answer);
            if is_last {
                break;
            }
        }
        Ok(answers)
    }

    async fn dry_run(&self, user: &str, right: &Right) -> Result<Answer, StoreError> {
        let mut words: Vec<Value> = vec!["DRYRUN".into(), user.into()];
        let said = right.words.iter().filter(|word| !word.is_empty());
        words.extend(said.map(|word| Value::from(word.as_str())));
        match self.redis.call("ACL", None, words).await.map_err(|err| err.named(CALL)) {
            Ok(value) if value.as_str().as_deref() == Some("OK") => Ok(Answer::May(May::Yes)),
            Ok(_) => Ok(Answer::May(May::No)),
            Err(err) => match err.refusal() {
                Some(Refusal::Denied) => Ok(Answer::NotTold),
                // It says the same of a command that it does not know.
                Some(_) if right.may_be_unknown() => Ok(Answer::May(May::Unknown)),
                Some(_) => Ok(Answer::NoSuchUser),
                None => Err(err),
            },
        }
    }
}

/// Who asks; none if that may not be asked.
async fn whoami(redis: &Redis) -> Result<Option<String>, StoreError> {
    match redis.call("ACL", None, vec!["WHOAMI".into()]).await.map_err(|err| err.named(CALL)) {
        Ok(value) => Ok(value.into_string()),
        Err(err) if err.refusal().is_some() => Ok(None),
        Err(err) => Err(err),
    }
}
