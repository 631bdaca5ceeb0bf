//! What waits: pending, suspects, delayed.

use super::{Facts, Hold, Told, facts::Breaker, suspects};
use crate::{
    counted,
    model::{Home, Ticket},
    operate::{LastFailure, span, utc},
    script::Found,
};

/// Nobody can run it any more.
pub(super) fn bodyless(facts: &Facts, found: &Found) -> Told {
    let home = found.home.map_or("nowhere", Home::word);
    let told = format!(
        "It is {home}, but its body is missing in Redis: whoever takes it next ends it as unusable."
    );
    let suggestion = format!(
        "Submit it anew under another id, and look what Redis lost: holdfastctl doctor --queue {}.",
        facts.queue
    );
    Told::new(Hold::BodyMissing, told, suggestion)
}

/// It waits for its time.
pub(super) fn delayed(facts: &Facts, found: &Found) -> Told {
    let (now, due, ticket) = (facts.now, found.score, &found.ticket);
    let paused = if facts.paused { " The queue is paused, too." } else { "" };
    if due <= now {
        let told = format!(
            "It was due {} ago: the next claim or the reclaimer's next pass makes it pending.{paused}",
            span(due, now)
        );
        let suggestion = match paused {
            "" => "Nothing, if that is a moment ago; else see that workers and a reclaimer run: holdfastctl worker ls.".to_owned(),
            _ => format!("{}.", resume(facts)),
        };
        return Told::new(Hold::Due, told, suggestion);
    }
    let (when, left) = (utc(due), span(now, due));
    let retry = format!("holdfastctl retry-now {}", facts.named());
    match ticket.failure.filter(|_| due != ticket.not_before) {
        Some(failure) => {
            let told = format!(
                "It backs off until {when}, in {left}, after attempt {} failed with {}, {} ago.{paused}",
                ticket.attempts,
                LastFailure::of(failure).words(),
                span(failure.1, now),
            );
            let suggestion = match facts.paused {
                true => format!(
                    "{}; if the target is well again, pull it forward, too: {retry}.",
                    resume(facts)
                ),
                false => format!("If the target is well again, pull it forward: {retry}."),
            };
            Told::new(Hold::BackOff, told, suggestion)
        }
        None => {
            let told =
                format!("Its caller does not want it started before {when}, in {left}.{paused}");
            let suggestion = match facts.paused {
                true => format!("{}; to start it early as well: {retry}.", resume(facts)),
                false => format!("Nothing, or start it early: {retry}."),
            };
            Told::new(Hold::NotBefore, told, suggestion)
        }
    }
}

/// What ends a pause.
pub(super) fn resume(facts: &Facts) -> String {
    format!("Let the queue go on: holdfastctl queue resume {}", facts.queue)
}

/// It can be claimed; what keeps others from doing so, the strongest first.
pub(super) fn pending(facts: &Facts, found: &Found) -> Told {
    let queue = &facts.queue;
    let ticket = &found.ticket;
    if ticket.deadline <= facts.now {
        return late(facts, ticket);
    }
    if facts.paused {
        let told = format!(
            "Queue {queue} is paused by an operator: nothing of it is claimed, and {} in its shard.",
            counted(facts.waiting, "request waits", "requests wait")
        );
        return Told::new(
            Hold::Paused,
            told,
            format!("Let it go on: holdfastctl queue resume {queue}."),
        );
    }
    suspects::barred(facts, found)
        .or_else(|| limited(facts))
        .or_else(|| unserved(facts))
        .or_else(|| held_back(facts))
        .or_else(|| suspects::hindered(facts, found))
        .unwrap_or_else(|| in_line(facts, found))
}

/// Nobody has ended it yet.
fn late(facts: &Facts, ticket: &Ticket) -> Told {
    let told = format!(
        "Its deadline passed {} ago: the next claim or the reclaimer's next pass ends it as deadline-exceeded.",
        span(ticket.deadline, facts.now)
    );
    let suggestion = "Nothing, if that is a moment ago; else see that a reclaimer runs (after a leap of Redis' clock it rests for 10 minutes).";
    Told::new(Hold::Late, told, suggestion)
}

/// As many are leased as may be.
pub(super) fn limited(facts: &Facts) -> Option<Told> {
    let limit = facts.limit.filter(|limit| facts.leased >= limit.share)?;
    let queue = &facts.queue;
    let whose = match limit.of_operator {
        Some(total) => format!("an operator's limit of {total} over all shards"),
        None => "the settings' in_flight".to_owned(),
    };
    let (are, one) = if facts.leased == 1 { ("is", "that one") } else { ("are", "one of them") };
    let told = format!(
        "{} of at most {} {are} in flight in its shard, by {whose}: it waits until {one} ends, with {} before it.",
        facts.leased, limit.share, facts.ahead
    );
    let suggestion = match limit.of_operator {
        Some(_) => {
            format!("Raise or clear the limit: holdfastctl queue limit {queue} N, or --clear.")
        }
        None => {
            format!("Raise it: holdfastctl queue limit {queue} N, or in_flight in the settings.")
        }
    };
    Some(Told::new(Hold::InFlightLimit, told, suggestion))
}

/// No worker is there for it.
fn unserved(facts: &Facts) -> Option<Told> {
    let queue = &facts.queue;
    let present = facts.present().count() as u64;
    if present == 0 {
        let seen = match (facts.last_seen(), facts.last_ended) {
            (seen, Some(ended)) if seen.is_none_or(|seen| seen <= ended) => {
                format!("the last one ended {} ago", span(ended, facts.now))
            }
            (Some(seen), _) => format!("the last one was seen {} ago", span(seen, facts.now)),
            (None, _) => "none was ever seen".to_owned(),
        };
        let told = format!("It can be claimed, but no worker is there: {seen}.");
        let suggestion = "Start a worker, or see why it does not run: holdfastctl worker ls.";
        return Some(Told::new(Hold::NoWorker, told, suggestion));
    }
    if !facts.serving.is_empty() {
        return None;
    }
    let (who, whose, they) = match present {
        1 => ("the one worker that is there has never".to_owned(), "its", "it has"),
        many => {
            (format!("none of the {many} workers that are there has ever"), "their", "they have")
        }
    };
    let told = format!("It can be claimed, but {who} asked queue {queue} for work.");
    let suggestion = format!(
        "See that worker.queues of {whose} settings names {queue}, and that {they} it in [queues]."
    );
    Some(Told::new(Hold::NotServed, told, suggestion))
}

/// Its target is called less, because it refuses calls, is silent or can't be reached.
fn held_back(facts: &Facts) -> Option<Told> {
    let breakers = facts.breakers();
    let reason = &breakers.first()?.reason;
    let present = facts.present().count() as u64;
    let open = breakers.iter().filter(|breaker| breaker.is_open()).count();
    let how = match open {
        0 => "with fewer calls at once".to_owned(),
        open if open == breakers.len() => "to one probe at a time".to_owned(),
        open => format!("{open} of them to one probe at a time"),
    };
    let hold = if breakers.len() == 1 { "holds" } else { "hold" };
    let told = format!(
        "Its target refuses calls, is silent or can't be reached ({reason}): {} of {} {hold} it back, {how}, and {} before it in its shard.",
        breakers.len(),
        counted(present, "worker", "workers"),
        counted(facts.ahead, "is", "are")
    );
    let is_busy = |breaker: &Breaker| matches!(breaker.reason.as_str(), "429" | "503");
    let suggestion = if breakers.iter().any(is_busy) {
        "Mend the target, or lower the queue's concurrency if it is asked for more than it takes: calls come back by themselves."
    } else {
        "Mend the target, or see that its address is right and reached from the workers: calls come back by themselves."
    };
    Some(match facts.silence() {
        None => Told::new(Hold::Breaker, told, suggestion),
        Some(silence) => {
            let told = format!("{told} That is what was last told, {silence} ago.");
            Told::new(Hold::Breaker, told, LOOK)
        }
    })
}

/// What helps where no worker says any more that it is there.
const LOOK: &str =
    "See whether a worker still runs, as each says once a minute: holdfastctl worker ls.";

/// It waits for its turn.
fn in_line(facts: &Facts, found: &Found) -> Told {
    let line = facts.line();
    let before = match line.ahead {
        0 => "It is the next to be claimed in its shard".to_owned(),
        ahead => format!("It waits in line with {ahead} before it in its shard"),
    };
    let left = found.ticket.deadline.saturating_sub(facts.now);
    let present = facts.present().count() as u64;
    let workers = match facts.silence() {
        None => format!("{} there", counted(present, "worker is", "workers are")),
        Some(silence) if present == 1 => format!("the one worker was last seen {silence} ago"),
        Some(silence) => format!("the last of {present} workers was seen {silence} ago"),
    };
    let (rate, is_tight) = match line.estimate_seconds {
        Some(seconds) => {
            let took = span(0, seconds * 1000);
            let about = if seconds >= 86_400 {
                "more than a day".to_owned()
            } else {
                format!("about {took}")
            };
            let told = format!(
                "{about} at the rate of the last minute, in which {} ended",
                line.ended_last_minute
            );
            (told, seconds * 1000 > left)
        }
        None => ("nothing ended there in the last minute".to_owned(), false),
    };
    let told = format!(
        "{before}: {rate}; {workers}, and it has {} left until its deadline.",
        span(0, left)
    );
    let suggestion = match (is_tight, line.estimate_seconds) {
        _ if facts.silence().is_some() => LOOK,
        (true, _) => {
            "It will hardly make its deadline: add workers or concurrency, or make its target faster."
        }
        (false, None) => {
            "If it does not move: the slots that the workers have for this queue (its concurrency at each) may be full, or their target slow; see holdfastctl lease ls, and worker ls, which tells the slots of all queues together."
        }
        (false, Some(_)) => {
            "Nothing: it runs in its turn. More workers or concurrency make the line shorter."
        }
    };
    Told::new(Hold::Line, told, suggestion)
}
