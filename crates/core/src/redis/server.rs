//! What kind of server answers, and whether work may be trusted to it.

use std::{collections::HashMap, fmt};

use super::Redis;
use crate::{StoreError, metrics};

/// Which program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// What the server says of itself. `None`: it does not let us know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// Which program.
    pub kind: ServerKind,
    /// Its version.
    pub version: Option<(u64, u64)>,
    /// `maxmemory-policy`.
    pub policy: Option<String>,
    /// Whether an append-only file is kept.
    pub append_only: Option<bool>,
    /// Whether it is a primary.
    pub primary: Option<bool>,
    /// Bytes in use, and `maxmemory`; 0: none is set.
    pub memory: Option<(u64, u64)>,
    /// Whether the last write of the append-only file succeeded.
    pub append_written: Option<bool>,
    /// Whether it was a replica once and took its primary's place.
    pub promoted: Option<bool>,
}

/// Something about the server that an operator must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It lacks what the scripts need.
    TooOld(ServerKind, (u64, u64)),
    /// It may drop any key when memory is short: queued work would vanish.
    EvictsAll(String),
    /// It drops keys that carry a TTL when memory is short. None of ours does.
    EvictsVolatile(String),
    /// It keeps no append-only file: a restart forgets everything.
    PersistenceOff,
    /// It is a replica.
    ReadOnly,
    /// It does not let us read these.
    Unreadable,
}

impl Fault {
    /// Whether no work may be trusted to such a server.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::TooOld(..) | Self::EvictsAll(_))
    }

    /// One word for labels.
    pub fn word(&self) -> &'static str {
        match self {
            Self::TooOld(..) => "too-old",
            Self::EvictsAll(_) | Self::EvictsVolatile(_) => "eviction-policy",
            Self::PersistenceOff => "persistence-off",
            Self::ReadOnly => "replica",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld(kind, (major, minor)) => {
                write!(
                    f,
                    "{kind:?} {major}.{minor} is too old: Redis 7.0 or Valkey 7.2 is the least"
                )
            }
            Self::EvictsAll(policy) => {
                write!(
                    f,
                    "maxmemory-policy {policy} lets Redis drop queued work: set it to noeviction"
                )
            }
            Self::EvictsVolatile(policy) => {
                write!(
                    f,
                    "maxmemory-policy is {policy}; no key of ours has a TTL, but noeviction is what fits"
                )
            }
            Self::PersistenceOff => f.write_str(
                "appendonly is off: a restart of Redis forgets every request; set appendonly yes",
            ),
            Self::ReadOnly => f.write_str("this is a replica: it takes no writes"),
            Self::Unreadable => f.write_str(
                "INFO is not allowed to us: version, policy and persistence are unknown",
            ),
        }
    }
}

impl ServerReport {
    /// Asks the server, and keeps the metric of each fault.
    pub async fn read(redis: &Redis) -> Result<Self, StoreError> {
        const CALL: &str = "info";
        let answer = redis.call("INFO", None, vec!["everything".into()]).await;
        let text = match answer.map_err(|err| err.named(CALL)) {
            Ok(value) => value.into_string().ok_or(StoreError::Reply { call: CALL })?,
            Err(err) if err.refusal() == Some(crate::error::Refusal::Denied) => String::new(),
            Err(err) => return Err(err),
        };
        let report = Self::parse(&text);
        if report.primary == Some(false) {
            redis.is_replica();
        }
        let faults = report.faults();
        for word in ["too-old", "eviction-policy", "persistence-off", "replica", "unreadable"] {
            metrics::redis_fault(word, faults.iter().any(|fault| fault.word() == word));
        }
        Ok(report)
    }

    pub(super) fn parse(info: &str) -> Self {
        let fields: HashMap<&str, &str> =
            info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        // Valkey calls itself Redis 7.2.4 too, so its own field is read first.
        let (kind, version) = match fields.get("valkey_version") {
            Some(version) => (ServerKind::Valkey, Some(*version)),
            None => (ServerKind::Redis, fields.get("redis_version").copied()),
        };
        let version = version.and_then(|version| {
            let mut parts = version.split('.').map(str::parse);
            Some((parts.next()?.ok()?, parts.next()?.ok()?))
        });
        let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
        Self {
            kind,
            version,
            policy: fields.get("maxmemory_policy").map(|policy| (*policy).to_owned()),
            append_only: fields.get("aof_enabled").map(|flag| *flag == "1"),
            primary: fields.get("role").map(|role| *role == "master"),
            memory: number("used_memory").zip(number("maxmemory")),
            append_written: fields.get("aof_last_write_status").map(|status| *status == "ok"),
            promoted: fields.get("second_repl_offset").map(|offset| *offset != "-1"),
        }
    }

    /// What an operator must know, the worst first.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let least = match self.kind {
            ServerKind::Redis => (7, 0),
            ServerKind::Valkey => (7, 2),
        };
        if let Some(version) = self.version.filter(|version| *version < least) {
            faults.push(Fault::TooOld(self.kind, version));
        }
        match self.policy.as_deref() {
            Some(policy) if policy.starts_with("allkeys") => {
                faults.push(Fault::EvictsAll(policy.to_owned()))
            }
            Some(policy) if policy.starts_with("volatile") => {
                faults.push(Fault::EvictsVolatile(policy.to_owned()))
            }
            _ => {}
        }
        if self.primary == Some(false) {
            faults.push(Fault::ReadOnly);
        }
        if self.append_only == Some(false) {
            faults.push(Fault::PersistenceOff);
        }
        if self.version.is_none() || self.policy.is_none() || self.append_only.is_none() {
            faults.push(Fault::Unreadable);
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";

    #[test]
    fn a_server_as_it_should_be_has_no_fault() {
        assert_eq!(ServerReport::parse(GOOD).faults(), []);
    }

    #[test]
    fn valkey_is_told_by_its_own_version() {
        let report = ServerReport::parse(
            &GOOD.replace("redis_version:7.0.15", "redis_version:7.2.4\r\nvalkey_version:9.1.2"),
        );
        assert_eq!((report.kind, report.version), (ServerKind::Valkey, Some((9, 1))));
        let old = ServerReport::parse(&GOOD.replace("7.0.15", "6.2.14"));
        assert!(old.faults()[0].is_fatal());
    }

    #[test]
    fn a_policy_that_eats_the_queue_is_fatal_and_a_volatile_one_is_not() {
        assert!(
            ServerReport::parse(&GOOD.replace("noeviction", "allkeys-lru")).faults()[0].is_fatal()
        );
        assert!(
            !ServerReport::parse(&GOOD.replace("noeviction", "volatile-lru")).faults()[0]
                .is_fatal()
        );
    }

    #[test]
    fn what_cannot_be_read_is_a_message_of_its_own() {
        assert_eq!(ServerReport::parse("").faults(), [Fault::Unreadable]);
    }
}
