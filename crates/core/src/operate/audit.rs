//! The line that each action of an operator leaves: who, what, on what, how many, and how it went.

use std::fmt;

use super::{ActError, Acted, Overruled, Queue, RedriveAsk, Redriven, Target};
use crate::{model::QueueName, script::Override};

/// One action. Ids stand in it as they were given; payloads and answers never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit<'a> {
    /// Who asked for it.
    pub who: &'a str,
    /// The action's word, like `pause`.
    pub action: &'static str,
    /// In which queue.
    pub queue: &'a QueueName,
    /// On what: an id with its tenant, or a filter.
    pub filter: String,
    /// How many that were, before anything was done.
    pub matched: u64,
    /// How many were changed.
    pub changed: u64,
    /// How it went, in a word.
    pub outcome: &'a str,
}

impl<'a> Audit<'a> {
    /// The line of a pause, a resume or a limit.
    pub fn of_word(
        who: &'a str,
        queue: &'a Queue,
        word: Override,
        done: &'a Result<Overruled, ActError>,
    ) -> Self {
        let (action, filter) = match word {
            Override::Paused(true) => ("pause", "all shards".to_owned()),
            Override::Paused(false) => ("resume", "all shards".to_owned()),
            Override::Limit(Some(limit)) => ("limit", format!("all shards limit={limit}")),
            Override::Limit(None) => ("limit", "all shards limit=none".to_owned()),
        };
        let (changed, outcome) = match done {
            Ok(done) => (done.shards_changed.into(), done.outcome.as_str()),
            Err(err @ ActError::Unheard { changed, .. }) => ((*changed).into(), err.word()),
            Err(err) => (0, err.word()),
        };
        let matched = queue.shards.get().into();
        Self { who, action, queue: &queue.name, filter, matched, changed, outcome }
    }

    /// The line of an action on one request.
    pub fn of_one(
        who: &'a str,
        action: &'static str,
        target: Target<'a>,
        done: &'a Result<Acted, ActError>,
    ) -> Self {
        let (matched, changed, outcome) = match done {
            Ok(done) => (1, 1, done.outcome.as_str()),
            Err(err) => (u64::from(!matches!(err, ActError::Unknown)), 0, err.word()),
        };
        let filter = format!("id={} tenant={}", target.identity.id, target.identity.tenant);
        Self { who, action, queue: &target.queue.name, filter, matched, changed, outcome }
    }

    /// The line of one call that ran dead letters again.
    pub fn of_redrive(
        who: &'a str,
        queue: &'a Queue,
        ask: &RedriveAsk,
        done: &'a Result<Redriven, ActError>,
    ) -> Self {
        let ids = match ask.ids.len() {
            0 => String::new(),
            number => format!(" ids={number}"),
        };
        let (changed, outcome) = match done {
            Ok(done) => (done.redriven, done.reason.as_deref().unwrap_or(&done.outcome)),
            Err(err) => (0, err.word()),
        };
        let (filter, matched) = (format!("{}{ids}", ask.filter), ask.count.unwrap_or(0));
        Self { who, action: "redrive", queue: &queue.name, filter, matched, changed, outcome }
    }
}

impl Audit<'_> {
    /// Writes the line to the process's log, under the target `audit`.
    pub fn log(&self) {
        let Self { who, action, queue, filter, matched, changed, outcome } = self;
        tracing::info!(target: "audit", who, action, %queue, filter, matched, changed, outcome, "operator");
    }
}

impl fmt::Display for Audit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, action, queue, filter, matched, changed, outcome } = self;
        write!(
            f,
            "audit: who={who} action={action} queue={queue} filter=\"{filter}\" matched={matched} \
             changed={changed} outcome={outcome}"
        )
    }
}
