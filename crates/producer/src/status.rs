//! Where a request is, as its caller is told.

use holdfast_core::model::{Failure, Home, Outcome, Record, Ticket};
use holdfast_core::script::Found;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;

use crate::app::Named;
use crate::durable::Safety;

/// A request as it was seen at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Where it is; none: its membership was lost.
    pub(crate) home: Option<Home>,
    /// Its state.
    pub(crate) ticket: Box<Ticket>,
    /// Score and time of the moment, where they were read.
    moment: Option<Moment>,
    /// Outcome word, once it ended, and when, where that is known.
    end: Option<(&'static str, Option<u64>)>,
    /// How safe that is; none where the queue asks for no more than Redis gives by itself.
    safety: Option<Safety>,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    score: u64,
    now: u64,
}

impl Seen {
    /// A request whose home and ticket alone are known.
    pub(crate) fn at(home: Option<Home>, ticket: Box<Ticket>) -> Self {
        Self { home, ticket, moment: None, end: None, safety: None }
    }

    /// A request of which it is known how it ended, and no more.
    pub(crate) fn ended_as(outcome: Outcome, ticket: Box<Ticket>) -> Self {
        let home = if outcome.is_dead() { Home::Dead } else { Home::Finished };
        Self { end: Some((outcome.word(), None)), ..Self::at(Some(home), ticket) }
    }

    /// The same, and how safe it is, if anything is said of that.
    pub(crate) fn with_safety(self, safety: Option<Safety>) -> Self {
        Self { safety, ..self }
    }

    /// How safe it is, if anything is said of that.
    pub(crate) fn safety(&self) -> Option<Safety> {
        self.safety
    }

    /// Whether it is as safe as its queue asks.
    pub(crate) fn is_safe(&self) -> bool {
        self.safety.is_none_or(Safety::is_whole)
    }

    /// Whether it has its terminal record.
    pub(crate) fn is_ended(&self) -> bool {
        self.home.is_some_and(Home::is_end)
    }

    /// The word for where it is.
    pub(crate) fn state(&self) -> &'static str {
        match self.home {
            Some(Home::Leased) if self.ticket.cancel_asked => "cancelling",
            Some(home) => home.word(),
            None => "nowhere",
        }
    }
}

impl From<Found> for Seen {
    fn from(found: Found) -> Self {
        let end = Record::peek(&found.record).map(|(outcome, at)| (outcome.word(), Some(at)));
        let moment = Moment { score: found.score, now: found.now };
        Self { home: found.home, ticket: found.ticket, moment: Some(moment), end, safety: None }
    }
}

/// The body of a status. Times are Unix seconds.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Status {
    id: String,
    queue: String,
    generation: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Number>,
    attempts: u32,
    lapses: u16,
    forgiven: u16,
    submitted_at: Option<Number>,
    deadline: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Lease>,
    #[serde(default, skip_serializing_if = "is_false")]
    cancel_asked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<LastFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Previous>,
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<Safety>,
}

/// The running lease.
#[derive(Debug, JsonSchema, Serialize)]
struct Lease {
    age_seconds: Option<Number>,
    expires_at: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct LastFailure {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    at: Option<Number>,
}

/// The generation that a redrive replaced.
#[derive(Debug, JsonSchema, Serialize)]
struct Previous {
    generation: String,
    outcome: Option<&'static str>,
    ended_at: Option<Number>,
}

impl Status {
    /// The status of a request as it was seen.
    pub(crate) fn of(named: &Named, seen: &Seen) -> Self {
        let ticket = &seen.ticket;
        let in_home = |home: Home| seen.moment.filter(|_| seen.home == Some(home));
        Self {
            id: named.identity.id.to_string(),
            queue: named.queue.name.to_string(),
            generation: ticket.generation.to_string(),
            state: seen.state(),
            outcome: seen.end.map(|(outcome, _)| outcome),
            ended_at: seen.end.and_then(|(_, at)| seconds(at?)),
            attempts: ticket.attempts,
            lapses: ticket.lapses,
            forgiven: ticket.forgiven,
            submitted_at: seconds(ticket.submitted_at),
            deadline: seconds(ticket.deadline),
            not_before: Some(ticket.not_before).filter(|at| *at > 0).and_then(seconds),
            next_try_at: in_home(Home::Delayed).and_then(|moment| seconds(moment.score)),
            lease: in_home(Home::Leased).map(|moment| Lease::of(ticket, moment)),
            cancel_asked: ticket.cancel_asked && !seen.is_ended(),
            last_failure: ticket.failure.map(LastFailure::of),
            previous: ticket.previous.map(|previous| Previous {
                generation: previous.generation.to_string(),
                outcome: previous.outcome.map(|outcome| outcome.word()),
                ended_at: seconds(previous.ended_at),
            }),
            durability: seen.safety,
        }
    }
}

impl Status {
    /// Adds what the holder of the lease calls itself.
    pub(crate) fn held_by(mut self, worker: Option<String>) -> Self {
        if let Some(lease) = &mut self.lease {
            lease.worker = worker;
        }
        self
    }
}

impl Lease {
    fn of(ticket: &Ticket, moment: Moment) -> Self {
        Self {
            age_seconds: seconds(moment.now.saturating_sub(ticket.claimed_at)),
            expires_at: seconds(moment.score),
            session: ticket.fence.and_then(|fence| fence.session()).map(|it| it.to_string()),
            worker: None,
        }
    }
}

impl LastFailure {
    fn of((failure, at): (Failure, u64)) -> Self {
        let status = Some(failure.status).filter(|status| *status > 0);
        Self { code: failure.code.word(), status, at: seconds(at) }
    }
}

/// Milliseconds as seconds: whole ones without a point, so that what came in goes out the same.
pub(crate) fn seconds(ms: u64) -> Option<Number> {
    if ms.is_multiple_of(1000) {
        return Some(Number::from(ms / 1000));
    }
    Number::from_f64(ms as f64 / 1000.0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_stay_integers() {
        let text = |ms| seconds(ms).map(|it| it.to_string());
        assert_eq!(text(2_000_000_000_000).as_deref(), Some("2000000000"));
        assert_eq!(text(2_000_000_000_250).as_deref(), Some("2000000000.25"));
        assert_eq!(text(1).as_deref(), Some("0.001"));
    }
}
