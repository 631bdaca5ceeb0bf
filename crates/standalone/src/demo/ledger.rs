//! The ledger: what became of every request, out of what the stand-in saw and what the API answered.
//!
//! Nothing of the services is used here: a ledger that shared their code would share their faults.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, Serializer};

/// What a killed worker's requests may take beyond its lease until they run again.
const SLACK: Duration = Duration::from_secs(2);

/// What is known after a run.
pub(crate) struct Evidence {
    /// Each request that was accepted, and the exact bytes that its call must carry.
    pub(crate) accepted: BTreeMap<String, Bytes>,
    /// Each result as it was read first, as soon as it existed.
    pub(crate) first: BTreeMap<String, Reading>,
    /// Each result as it was read at the end.
    pub(crate) last: BTreeMap<String, Reading>,
    /// Every call that the stand-in got, in its order.
    pub(crate) arrivals: Vec<Arrival>,
    /// When the worker was killed.
    pub(crate) kill: Kill,
    /// Settlements that were refused because the lease was another's by then, as the workers count them.
    pub(crate) fenced: u64,
}

/// A result, as the API gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) outcome: String,
    pub(crate) status: String,
    pub(crate) generation: String,
    pub(crate) body: Bytes,
}

/// A call that the stand-in got.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// Since the stand-in started.
    pub(crate) at: Duration,
    /// The worker that made it, by its credential.
    pub(crate) worker: String,
    pub(crate) body: Bytes,
    /// The whole answer, if it was given.
    pub(crate) answer: Option<Bytes>,
}

/// The end of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Kill {
    pub(crate) worker: String,
    /// By the stand-in's clock.
    pub(crate) at: Duration,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Ledger {
    /// Requests that the API took.
    pub(crate) accepted: usize,
    /// Those whose record is an answer that the stand-in gave to a call for this very request.
    pub(crate) answered: usize,
    /// Those whose record was another when it was read again.
    pub(crate) answered_twice: usize,
    /// Those without a record at the end.
    pub(crate) lost: usize,
    /// Those that were called more than once.
    pub(crate) redelivered: usize,
    /// Settlements that came too late and were refused.
    pub(crate) fenced: u64,
    /// From the kill to the next call for the last request that the killed worker held; none: it held nothing, or one
    /// of them was not called again.
    #[serde(rename = "takeover_seconds", serialize_with = "seconds")]
    pub(crate) takeover: Option<Duration>,
}

impl Ledger {
    /// Adds it up.
    pub(crate) fn of(evidence: &Evidence) -> Self {
        let ids = evidence.accepted.keys();
        let count = |is: &dyn Fn(&String) -> bool| ids.clone().filter(|id| is(id)).count();
        Self {
            accepted: evidence.accepted.len(),
            answered: count(&|id| evidence.is_answered(id)),
            answered_twice: count(&|id| evidence.differs(id)),
            lost: count(&|id| !evidence.last.contains_key(id)),
            redelivered: count(&|id| evidence.calls(id).nth(1).is_some()),
            fenced: evidence.fenced,
            takeover: evidence.takeover(),
        }
    }

    /// What is not as it should be, in words; nothing: the run was clean.
    pub(crate) fn faults(&self, submitted: usize, lease: Duration) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |holds: bool, fault: String| {
            if !holds {
                faults.push(fault);
            }
        };
        let limit = lease + SLACK;
        let accepted = self.accepted;
        check(accepted == submitted, format!("accepted {accepted} of {submitted}"));
        check(self.answered == accepted, format!("answered {} of {accepted}", self.answered));
        check(self.lost == 0, format!("{} lost", self.lost));
        check(self.answered_twice == 0, format!("{} answered twice", self.answered_twice));
        check(self.fenced > 0, "nothing was fenced: the frozen worker proved nothing".to_owned());
        match self.takeover {
            Some(takeover) => check(
                takeover <= limit,
                format!(
                    "the takeover took {:.1} s of {:.1} s",
                    takeover.as_secs_f64(),
                    limit.as_secs_f64()
                ),
            ),
            None => check(false, "what the killed worker held was not taken over".to_owned()),
        }
        faults
    }
}

impl Evidence {
    /// The calls for a request, told by their bytes.
    fn calls(&self, id: &str) -> impl Iterator<Item = &Arrival> {
        let body = self.accepted.get(id);
        self.arrivals.iter().filter(move |arrival| Some(&arrival.body) == body)
    }

    fn is_answered(&self, id: &str) -> bool {
        let Some(first) = self.first.get(id) else { return false };
        let is_ours = |call: &Arrival| call.answer.as_ref() == Some(&first.body);
        first.outcome == "answered" && first.status == "200" && self.calls(id).any(is_ours)
    }

    fn differs(&self, id: &str) -> bool {
        matches!((self.first.get(id), self.last.get(id)), (Some(first), Some(last)) if first != last)
    }

    fn takeover(&self) -> Option<Duration> {
        let held = self.accepted.keys().filter(|id| self.was_held_by_the_killed(id));
        let taken_over: Option<Vec<Duration>> = held.map(|id| self.called_again(id)).collect();
        Some(taken_over?.into_iter().max()? - self.kill.at)
    }

    /// Whether the killed worker had called it and got no answer, or had no time to settle it.
    fn was_held_by_the_killed(&self, id: &str) -> bool {
        let taken_over = self.called_again(id).is_some();
        let mut calls = self.calls(id).filter(|call| call.worker == self.kill.worker);
        calls.any(|call| taken_over || call.answer.is_none())
    }

    /// When another worker first called it after the kill.
    fn called_again(&self, id: &str) -> Option<Duration> {
        let others = self.calls(id).filter(|call| call.worker != self.kill.worker);
        others.map(|call| call.at).find(|at| *at > self.kill.at)
    }
}

/// Seconds, to the millisecond.
#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn seconds<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    let seconds = |it: &Duration| (it.as_secs_f64() * 1e3).round() / 1e3;
    duration.as_ref().map(seconds).serialize(to)
}

#[cfg(test)]
mod tests;
