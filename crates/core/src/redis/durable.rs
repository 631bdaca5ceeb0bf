//! Waiting until what was shown is as safe as a queue asks, on a connection of its own.
//!
//! WAIT and WAITAOF speak of the last write of the connection that they come on, and of nothing else: a connection that
//! wrote nothing is told at once that all is well. So the script that reads also writes, and the wait follows it on the
//! same connection, and follows the last one where a read takes several. fred may reconnect between any two commands; a
//! name that is given before the first and read after the wait proves that it did not, and that no other server answered. The wait blocks its connection, so nothing else
//! travels there.

use std::{
    fmt,
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    types::{ClusterHash, CustomCommand, Value},
};

use super::{
    CallError, CustomRaw, OpenError, Options, Redis, ServerReport, kept::Kept, primary::Primary,
    slot_of,
};
use crate::{
    StoreError, counted,
    error::{Refusal, first_word},
    keys::ShardKeys,
    model::Session,
};

/// The least that a wait may take: with `appendfsync everysec` the disk is asked once a second, and may be late.
const LEAST_WAIT: Duration = Duration::from_secs(2);

/// The first Redis, and the first Valkey, with WAITAOF.
const WAITAOF_SINCE: (u64, u64) = (7, 2);

/// How safe an answer is before it is given, above what Redis gives by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// On the disk of the primary.
    Fsynced,
    /// In the memory of at least so many replicas.
    Replicated(u64),
}

/// What a wait came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Whether the level was reached in time.
    pub whole: bool,
    /// The replicas that have all that was shown; 0 where only the disk was asked about.
    pub replicas: u64,
}

/// Why a level cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The server is older than WAITAOF.
    TooOld,
    /// No append-only file is kept.
    AppendOnly,
    /// Fewer replicas are there than were asked for.
    Replicas {
        /// How many are asked for.
        asked: u64,
        /// How many are connected and up to date enough to be sent writes.
        there: u64,
    },
    /// It is a replica itself.
    Primary,
    /// INFO is not allowed to us, or does not say.
    Unreadable,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld => f.write_str("it is older than WAITAOF (Redis and Valkey 7.2)"),
            Self::AppendOnly => f.write_str("it keeps no append-only file"),
            Self::Replicas { asked, there } => {
                let asked = counted(*asked, "replica is", "replicas are");
                write!(f, "{asked} asked for, and {} connected", counted(*there, "is", "are"))
            }
            Self::Primary => f.write_str("it is a replica itself"),
            Self::Unreadable => f.write_str("it does not let us read INFO"),
        }
    }
}

impl Level {
    /// What the server of a shard lacks for this level at this moment; nothing is written.
    pub async fn missing_on(
        self,
        redis: &Redis,
        shard: &ShardKeys,
    ) -> Result<Option<Missing>, StoreError> {
        const CALL: &str = "info";
        let sections = ["server", "persistence", "replication"].map(Value::from).to_vec();
        let answer = redis.call("INFO", Some(slot_of(&shard.meta)), sections).await;
        match answer.map_err(|err| err.named(CALL)) {
            Ok(value) => {
                redis.status.note_needed(CALL, false);
                let text = value.into_string().ok_or(StoreError::Reply { call: CALL })?;
                let missing = self.missing_in(&text);
                if missing == Some(Missing::Primary) {
                    redis.is_replica();
                }
                Ok(missing)
            }
            Err(err) if err.refusal() == Some(Refusal::Denied) => {
                // Elsewhere it may be denied without harm; here no submit gets by.
                redis.status.note_needed(CALL, true);
                Ok(Some(Missing::Unreadable))
            }
            Err(err) => Err(err),
        }
    }

    fn missing_in(self, info: &str) -> Option<Missing> {
        let report = ServerReport::parse(info);
        let Some(primary) = report.primary else { return Some(Missing::Unreadable) };
        if !primary {
            return Some(Missing::Primary);
        }
        match self {
            Self::Fsynced => match (report.version, report.append_only) {
                (Some(version), Some(_)) if version < WAITAOF_SINCE => Some(Missing::TooOld),
                (Some(_), Some(true)) => None,
                (Some(_), Some(false)) => Some(Missing::AppendOnly),
                _ => Some(Missing::Unreadable),
            },
            Self::Replicated(asked) => {
                let there = online_replicas(info);
                (there < asked).then_some(Missing::Replicas { asked, there })
            }
        }
    }

    /// Its word, as settings say it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fsynced => "fsynced",
            Self::Replicated(_) => "replicated",
        }
    }

    /// The command that waits for it, and its words.
    fn wait(self, limit: Duration) -> (&'static str, Vec<Value>) {
        let limit = limit.as_millis().to_string();
        match self {
            Self::Fsynced => ("WAITAOF", vec!["1".into(), "0".into(), limit.into()]),
            Self::Replicated(asked) => ("WAIT", vec![asked.to_string().into(), limit.into()]),
        }
    }

    /// What its answer says; none if it cannot be read.
    fn reached(self, answer: &Value) -> Option<Reached> {
        match (self, answer) {
            (Self::Fsynced, Value::Array(counts)) => {
                let local = counts.first()?.as_u64()?;
                Some(Reached { whole: local >= 1, replicas: 0 })
            }
            (Self::Replicated(asked), answer) => {
                let replicas = answer.as_u64()?;
                Some(Reached { whole: replicas >= asked, replicas })
            }
            _ => None,
        }
    }
}

/// `slave0:ip=…,port=…,state=online,…`: those that are sent every write as it happens.
fn online_replicas(info: &str) -> u64 {
    let is_replica =
        |name: &str| name.strip_prefix("slave").is_some_and(|number| number.parse::<u64>().is_ok());
    let lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    let online = lines
        .filter(|(name, rest)| is_replica(name) && rest.split(',').any(|it| it == "state=online"));
    u64::try_from(online.count()).unwrap_or(u64::MAX)
}

/// A connection on which what was read is waited for. One call at a time: the next would wait behind its wait.
pub struct Durable {
    kept: Kept,
    primary: Primary,
    level: Level,
    wait: Duration,
}

impl Durable {
    /// A connection beside `redis`.
    pub fn open(redis: &Redis, level: Level) -> Result<Self, OpenError> {
        let wait = redis.options.command_timeout.max(LEAST_WAIT);
        // A connection is left as hung after three quarters of the limit, which must be after the end of the wait.
        let kept = Kept::connect(&redis.options, Options::client, 2 * wait)?;
        Ok(Self { kept, primary: Primary::default(), level, wait })
    }

    /// How long a wait may take, at most.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The level that is waited for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Begins calls that one wait follows, for a shard whose keys have this slot.
    pub(crate) fn stretch(&self, slot: u16) -> Stretch<'_> {
        let name = format!("holdfast-{}", Session::random());
        // All on one: another would be another connection.
        Stretch { durable: self, client: self.kept.client(), slot, name, is_named: false }
    }

    fn told(&self, waited: Result<Value, Error>) -> Result<Reached, CallError> {
        match waited {
            Ok(answer) => self.level.reached(&answer).ok_or(CallError::Redis(unreadable_wait())),
            // A primary that became a replica: what was shown may be of a history that ends.
            Err(error) if first_word(&error) == "UNBLOCKED" => {
                Err(CallError::Redis(another_connection()))
            }
            Err(error) if !StoreError::new("", error.clone()).is_refused() => {
                Err(CallError::Redis(error))
            }
            // The level was there before the write, and is gone.
            Err(_) => Ok(Reached { whole: false, replicas: 0 }),
        }
    }
}

/// Calls that one wait follows: it covers all that its connection wrote.
pub(crate) struct Stretch<'a> {
    durable: &'a Durable,
    client: Client,
    slot: u16,
    /// Given once, before the first call: a connection that comes later does not have it.
    name: String,
    is_named: bool,
}

impl Stretch<'_> {
    /// Runs a script that writes.
    pub(crate) async fn run(
        &mut self,
        script: &'static str,
        words: Vec<Value>,
    ) -> Result<Value, CallError> {
        let (sent, is_named) = (Instant::now(), std::mem::replace(&mut self.is_named, true));
        let name = async {
            if is_named {
                return Ok(());
            }
            self.call("CLIENT", vec!["SETNAME".into(), self.name.as_str().into()]).await.map(drop)
        };
        // In this order: each is handed to the client when it is first polled.
        let (named, ran) = tokio::join!(biased; name, self.call(script, words));
        self.durable.kept.look(Some(self.slot), sent, &ran);
        self.durable.primary.look(&self.client, &ran);
        // First what the script's caller must know: it may have to send the script's text.
        let answer = ran.map_err(CallError::Redis)?;
        named.map_err(CallError::Redis)?;
        Ok(answer)
    }

    /// Waits for all that was written, and proves that one connection did all of it.
    ///
    /// An error of the wait alone is an answer, too: the level was not reached.
    pub(crate) async fn wait(self) -> Result<Reached, CallError> {
        let (wait, words) = self.durable.level.wait(self.durable.wait);
        let (waited, asked) = tokio::join!(
            biased;
            self.call(wait, words),
            self.call("CLIENT", vec!["GETNAME".into()]),
        );
        let asked = asked.map_err(CallError::Redis)?;
        if asked.as_bytes() != Some(self.name.as_bytes()) {
            return Err(CallError::Redis(another_connection()));
        }
        self.durable.told(waited)
    }

    /// One call, boxed: two of them are awaited side by side, and each is large.
    fn call(
        &self,
        command: &'static str,
        words: Vec<Value>,
    ) -> impl Future<Output = Result<Value, Error>> {
        // Not told as blocking: the client would unblock it for whoever comes next.
        let command = CustomCommand::new_static(command, ClusterHash::Custom(self.slot), false);
        Box::pin(self.client.custom_raw_value(command, words))
    }
}

fn another_connection() -> Error {
    Error::new(ErrorKind::IO, "the connection changed between a write and its wait")
}

fn unreadable_wait() -> Error {
    Error::new(ErrorKind::Protocol, "the answer to a wait cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "# Server\r\nredis_version:7.2.4\r\n# Persistence\r\naof_enabled:1\r\n\
        # Replication\r\nrole:master\r\nconnected_slaves:3\r\nslave_expires_tracked_keys:0\r\n\
        slave0:ip=10.0.0.1,port=6379,state=online,offset=14,lag=1\r\n\
        slave1:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0\r\n\
        slave2:ip=10.0.0.3,port=6379,state=online,offset=14,lag=0\r\n";

    #[test]
    fn replicas_count_once_they_are_sent_every_write() {
        assert_eq!(Level::Replicated(2).missing_in(PRIMARY), None);
        assert_eq!(
            Level::Replicated(3).missing_in(PRIMARY),
            Some(Missing::Replicas { asked: 3, there: 2 })
        );
    }

    #[test]
    fn fsynced_needs_waitaof_and_an_append_only_file() {
        let missing = |from: &str, to: &str| Level::Fsynced.missing_in(&PRIMARY.replace(from, to));
        assert_eq!(missing("", ""), None);
        assert_eq!(missing("redis_version:7.2.4", "redis_version:7.0.15"), Some(Missing::TooOld));
        assert_eq!(missing("aof_enabled:1", "aof_enabled:0"), Some(Missing::AppendOnly));
        assert_eq!(missing("redis_version:7.2.4\r\n", ""), Some(Missing::Unreadable));
        let valkey = "redis_version:7.2.4\r\nvalkey_version:8.0.1";
        assert_eq!(missing("redis_version:7.2.4", valkey), None);
    }

    #[test]
    fn no_level_is_given_by_a_replica_or_by_a_server_that_says_nothing() {
        for level in [Level::Fsynced, Level::Replicated(1)] {
            let replica = PRIMARY.replace("role:master", "role:slave");
            assert_eq!(level.missing_in(&replica), Some(Missing::Primary));
            assert_eq!(level.missing_in(""), Some(Missing::Unreadable));
        }
    }

    #[test]
    fn a_wait_that_ran_out_is_told_with_what_it_reached() {
        let counts = |local: i64, replicas: i64| Value::Array(vec![local.into(), replicas.into()]);
        let reached = |whole, replicas| Some(Reached { whole, replicas });
        assert_eq!(Level::Fsynced.reached(&counts(1, 0)), reached(true, 0));
        assert_eq!(Level::Fsynced.reached(&counts(0, 3)), reached(false, 0));
        assert_eq!(Level::Fsynced.reached(&Value::from(1)), None);
        assert_eq!(Level::Replicated(2).reached(&Value::from(2)), reached(true, 2));
        assert_eq!(Level::Replicated(2).reached(&Value::from(1)), reached(false, 1));
        assert_eq!(Level::Replicated(2).reached(&Value::Null), None);
    }
}
