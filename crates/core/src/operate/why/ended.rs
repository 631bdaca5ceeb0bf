//! What ended, and what is lost.

use super::{Facts, Hold, Told, waiting};
use crate::{
    counted,
    model::{Failure, Outcome, Record, RecordHead},
    operate::{LastFailure, span, utc},
    script::Found,
};

/// No ticket can be read under its key.
pub(super) fn lost(facts: &Facts) -> Told {
    if !(facts.has_ticket || facts.has_request || facts.has_result) {
        let told = format!(
            "Nothing is kept under this id for tenant {} in queue {}.",
            facts.tenant, facts.queue
        );
        let suggestion =
            "Check queue, tenant and id; it was never accepted there, or its retention is over.";
        return Told::new(Hold::Unknown, told, suggestion);
    }
    let ticket = if facts.has_ticket { "cannot be read by this version" } else { "is missing" };
    let left = match (facts.has_request, facts.has_result) {
        (true, true) => "its request and its record are there",
        (true, false) => "its request is there",
        (false, true) => "its record is there",
        (false, false) => "nothing else of it is there",
    };
    let told = format!(
        "Its ticket {ticket}, though {left}: whoever meets it in a home next ends it as unusable."
    );
    let suggestion = format!(
        "Submit it anew under another id, and look what Redis lost: holdfastctl doctor --queue {}.",
        facts.queue
    );
    Told::new(Hold::TicketMissing, told, suggestion)
}

/// Its membership was lost.
pub(super) fn nowhere(facts: &Facts) -> Told {
    let told = "Its ticket is there, but it is in no home: Redis lost where it was, and nobody will take it.";
    let suggestion = format!(
        "Submit it anew under another id, and look what Redis lost: holdfastctl doctor --queue {}.",
        facts.queue
    );
    Told::new(Hold::Nowhere, told.to_owned(), suggestion)
}

/// It ended, and is kept for its readers.
pub(super) fn finished(facts: &Facts, found: &Found) -> Told {
    let Some(record) = Record::head(&found.record) else { return recordless(facts, found) };
    let ended = ended(facts, found, record);
    let (told, suggestion) = match record.outcome {
        Outcome::Answered => (
            format!("It ended as answered with status {}{ended}", record.status),
            format!("Read it: holdfastctl result {} --queue {}.", facts.id, facts.queue),
        ),
        Outcome::DeadlineExceeded if facts.paused && found.ticket.attempts == 0 => (
            format!("It ended as deadline-exceeded{ended} Queue {} is paused by an operator.", facts.queue),
            format!("{}; then submit it under another id.", waiting::resume(facts)),
        ),
        Outcome::DeadlineExceeded => (
            format!("It ended as deadline-exceeded{}{ended}", after(record.failure)),
            "Submit it under another id with more time; if many end so, add workers or concurrency.".to_owned(),
        ),
        Outcome::Cancelled => (
            format!("It ended as cancelled{ended}"),
            "Nothing: its caller wanted that. To run it all the same, submit it under another id.".to_owned(),
        ),
        other => (format!("It ended as {}{ended}", other.word()), "Nothing.".to_owned()),
    };
    Told::new(Hold::Ended, told, suggestion)
}

/// It ended, and is kept for an operator.
pub(super) fn dead(facts: &Facts, found: &Found) -> Told {
    let Some(record) = Record::head(&found.record) else { return recordless(facts, found) };
    let redrive = format!("holdfastctl dead redrive {} --yes", facts.named());
    let told = format!(
        "It is a dead letter: {}{}{}",
        record.outcome.word(),
        after(record.failure),
        ended(facts, found, record)
    );
    let suggestion = match record.outcome {
        _ if !facts.has_request => {
            "It cannot run again, its body is missing: submit it anew under another id.".to_owned()
        }
        Outcome::GaveUp => format!("Mend the target, then run it again: {redrive}."),
        Outcome::KilledWorkers => format!(
            "Look what it does to workers before it runs again ({}); then: {redrive}.",
            counted(found.ticket.lapses, "lease of it ran out", "leases of it ran out")
        ),
        Outcome::AnswerTooLarge => {
            format!("Raise the queue's answer_limit, then run it again: {redrive}.")
        }
        _ => format!("See what was unusable about it; to try again: {redrive}."),
    };
    Told::new(Hold::Ended, told, suggestion)
}

/// How it ended is lost.
fn recordless(facts: &Facts, found: &Found) -> Told {
    let told = format!(
        "It ended, but its record is missing or cannot be read; what is left is kept until {}.",
        utc(found.score)
    );
    let suggestion = format!(
        "Submit it anew under another id, and look what Redis lost: holdfastctl doctor --queue {}.",
        facts.queue
    );
    Told::new(Hold::RecordMissing, told, suggestion)
}

fn ended(facts: &Facts, found: &Found, record: RecordHead) -> String {
    format!(
        ", {} ago, after {}; it is kept until {}.",
        span(record.ended_at, facts.now),
        counted(found.ticket.attempts, "attempt", "attempts"),
        utc(found.score)
    )
}

fn after(failure: Option<Failure>) -> String {
    match failure {
        Some(failure) => format!(" after {}", LastFailure::of((failure, 0)).words()),
        None => String::new(),
    }
}
