//! Looking whether Redis, its users and the keys of a queue are as they must be, while everything runs.
//!
//! # Reading order
//!
//! 1. `server`: version, eviction, persistence, memory, clock.
//! 2. `rights`: what each role's user may not do.
//! 3. `shard`: the audit of a shard's keys; `upkeep`: whether somebody looks after it.
//!
//! Nothing is changed, and nothing is reported that traffic may have made of a healthy shard: each request is seen at one
//! moment by one script, what is seen apart is looked at again, and counters are judged only if nothing moved meanwhile.

mod rights;
mod server;
mod shard;
mod upkeep;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Redis, StoreError,
    keys::{QUEUES, WORKERS},
    operate::Queue,
};

pub use crate::rights::Role;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Work is lost or stands still.
    Fault,
    /// It works, and may not for long.
    Warning,
    /// To be known.
    Note,
}

impl Grade {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that was found, in one place; of many alike, some are named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// Its stable name, as docs/holdfastctl.md explains it.
    pub name: String,
    /// Where: `redis`, a user, a queue, or a shard as `queue/number`.
    pub place: String,
    /// What it is, and what helps.
    pub told: String,
    /// How many there are.
    pub count: u64,
    /// The keys of some of them, in hex, as other commands show them.
    pub examples: Vec<String>,
}

/// How many examples a finding names.
const EXAMPLES: usize = 5;

/// What was found, and how much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// How many shards were looked at to the end.
    pub shards: u64,
    /// How many requests were looked at.
    pub requests: u64,
}

impl Report {
    /// Whether anything is a fault.
    pub fn has_fault(&self) -> bool {
        self.findings.iter().any(|finding| finding.grade == Grade::Fault)
    }

    /// Tells that a look was refused, or answered as nothing of ours is, and goes on with the next.
    pub(crate) fn go_on(
        &mut self,
        place: impl fmt::Display,
        looked: Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match looked {
            Err(err @ (StoreError::Refused { .. } | StoreError::Reply { .. })) => {
                if let Some(why) = err.refused_writes() {
                    let told = format!(
                        "{why}: nothing is accepted, claimed or settled, and what it refused to look at is not looked at"
                    );
                    let place = Some(place.to_string());
                    self.add_one(Grade::Fault, "writes-refused", "redis", told, place);
                } else {
                    let told = format!("it can't be looked at, or not to the end: {err}");
                    self.add(Grade::Fault, "shard-unreadable", place, told);
                }
                Ok(())
            }
            looked => looked,
        }
    }

    /// Adds a finding; one of the same name in the same place counts on.
    pub(crate) fn add(
        &mut self,
        grade: Grade,
        name: &str,
        place: impl fmt::Display,
        told: impl Into<String>,
    ) {
        self.add_one(grade, name, place, told, None);
    }

    /// The same, with the key of what it is about.
    pub(crate) fn add_one(
        &mut self,
        grade: Grade,
        name: &str,
        place: impl fmt::Display,
        told: impl Into<String>,
        example: Option<String>,
    ) {
        let place = place.to_string();
        let same = |it: &&mut Finding| it.name == name && it.place == place;
        if let Some(finding) = self.findings.iter_mut().find(same) {
            finding.count += 1;
            let room = finding.examples.len() < EXAMPLES;
            finding.examples.extend(example.filter(|it| room && !finding.examples.contains(it)));
            return;
        }
        let (name, told, examples) = (name.to_owned(), told.into(), example.into_iter().collect());
        self.findings.push(Finding { grade, name, place, told, count: 1, examples });
    }
}

/// What to look at.
#[derive(Debug, Default)]
pub struct Examination {
    /// The queues whose shards are audited.
    pub queues: Vec<Queue>,
    /// The users of roles, where they are not the one that asks; a role that is not named here is asked for with that one.
    pub users: Vec<(Role, String)>,
    /// Why the queues are not known, where their registry could not be read.
    pub unlisted: Option<StoreError>,
}

/// Looks at everything. What Redis refuses is a finding, and the rest is looked at all the same; an error says that it can't be
/// asked at all.
pub async fn examine(redis: &Redis, what: Examination) -> Result<Report, StoreError> {
    let mut report = Report::default();
    server::look(redis, &mut report).await?;
    let first = what.queues.first().and_then(|queue| queue.keys().into_iter().next());
    let looked = rights::look(redis, first.as_ref(), &what.users, &mut report).await;
    report.go_on("rights", looked)?;
    let looked = upkeep::look_at_workers(redis, &mut report).await;
    report.go_on(WORKERS, looked)?;
    report.go_on(QUEUES, what.unlisted.map_or(Ok(()), Err))?;
    for queue in &what.queues {
        upkeep::look(redis, queue, &mut report).await?;
        for keys in &queue.keys() {
            let looked = shard::audit(redis, keys, &mut report).await;
            report.shards += u64::from(looked.is_ok());
            report.go_on(keys.place(), looked)?;
        }
    }
    report.findings.sort_by(|one, other| {
        (one.grade, &one.place, &one.name).cmp(&(other.grade, &other.place, &other.name))
    });
    Ok(report)
}
