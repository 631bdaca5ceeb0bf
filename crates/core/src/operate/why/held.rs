//! What is leased: running, cancelling, lapsed.

use super::{Facts, Hold, Told, facts::WORKER_SEEN};
use crate::{operate::span, script::Found};

/// Who holds it, since when, and for how long.
pub(super) fn leased(facts: &Facts, found: &Found) -> Told {
    let (now, expiry, ticket) = (facts.now, found.score, &found.ticket);
    let who = who(facts, found);
    let since = span(ticket.claimed_at, now);
    if expiry <= now {
        return lapsed(facts, found, &who);
    }
    let left = span(now, expiry);
    let release = format!("holdfastctl lease release {}", facts.named());
    if ticket.cancel_asked {
        let told = format!(
            "Its caller cancelled it, and {who}, which has held it for {since}, has yet to stop; its lease runs for another {left}."
        );
        let suggestion = format!(
            "Nothing: its worker hears of it with its next renewal at the latest. If it does not stop, end the lease: {release}."
        );
        return Told::new(Hold::Cancelling, told, suggestion);
    }
    let late = if ticket.deadline <= now { ", though its deadline has passed" } else { "" };
    let told = format!(
        "{} has worked on attempt {} for {since}{late}; its lease runs for another {left}.",
        capital(&who),
        ticket.attempts
    );
    let suggestion = match facts.holder() {
        Some((_, seen)) if seen + WORKER_SEEN < now => format!(
            "That worker was last seen {} ago, but its lease was renewed since; if it hangs, end the lease: {release}.",
            span(seen, now)
        ),
        _ if facts.serving.len() > 1 => {
            format!("Nothing: it runs. To give it to another worker, end the lease: {release}.")
        }
        _ => format!(
            "Nothing: it runs. To have its call stopped and made anew, end the lease: {release}."
        ),
    };
    Told::new(Hold::Running, told, suggestion)
}

/// Nobody has taken it back yet.
fn lapsed(facts: &Facts, found: &Found, who: &str) -> Told {
    let ago = span(found.score, facts.now);
    let seen = match facts.beat {
        0 => "nobody has ever renewed or reclaimed there".to_owned(),
        beat if beat < found.score => format!(
            "no reclaimer has been there since, the last to renew or reclaim was {} ago",
            span(beat, facts.now)
        ),
        beat => format!("somebody renewed or reclaimed there {} ago", span(beat, facts.now)),
    };
    let told = format!(
        "The lease of {who} lapsed {ago} ago, on attempt {}: it waits for a reclaimer to take it back; {seen}.",
        found.ticket.attempts
    );
    let suggestion = "Nothing, if that is a second or two ago; else see that a reclaimer runs and has this queue.";
    Told::new(Hold::Lapsed, told, suggestion)
}

/// The holder by its name, or by its session where the registry does not know it.
fn who(facts: &Facts, found: &Found) -> String {
    let session = found.ticket.fence.and_then(|fence| fence.session());
    match (facts.holder(), session) {
        (Some((name, _)), _) if !name.is_empty() => format!("worker {name}"),
        (_, Some(session)) => {
            format!("a worker that the registry does not name (session {session})")
        }
        _ => "a worker that cannot be told".to_owned(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
