//! What is counted and logged once Redis has said what became of an attempt.

use std::time::SystemTime;

use holdfast_core::keys::ShardKeys;
use holdfast_core::metrics::{self, SettleOutcome};
use holdfast_core::model::{Failure, FailureCode, Outcome, Settled};
use holdfast_core::script::{SettleItem, SettleKind, SettleReply};
use tracing::{debug, info, warn};

/// A loop had a good round.
pub(crate) fn looped(name: &'static str) {
    #[expect(clippy::disallowed_methods, reason = "for eyes only")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    metrics::loop_succeeded(name, since.unwrap_or_default().as_secs_f64());
}

/// Counts and logs one settled attempt.
pub(crate) fn settled(shard: &ShardKeys, item: &SettleItem, reply: SettleReply) {
    let queue = shard.queue.as_str();
    metrics::settled(queue, outcome(&item.kind, reply));
    if let Some(end) = end(&item.kind, reply) {
        metrics::ended(queue, end.word());
    }
    if let (SettleKind::Retry { failure, .. }, SettleReply::Done) = (&item.kind, reply) {
        metrics::retried(queue, reason(*failure));
    }
    log(shard, item, reply);
}

fn outcome(kind: &SettleKind, reply: SettleReply) -> SettleOutcome {
    match (reply, kind.word()) {
        (SettleReply::Done, Settled::Ack) => SettleOutcome::Ack,
        (SettleReply::Done, Settled::Retry) => SettleOutcome::Retry,
        (SettleReply::Done, Settled::Release) => SettleOutcome::Release,
        (SettleReply::Done, Settled::Bury) => SettleOutcome::Bury,
        (SettleReply::Ended(_), _) => SettleOutcome::Ended,
        (SettleReply::Already(_), _) => SettleOutcome::Already,
        (SettleReply::Fenced, _) => SettleOutcome::Fenced,
        (SettleReply::Gone, _) => SettleOutcome::Gone,
    }
}

/// The end that this settle gave the request, if it gave one. `already` is what a repeat is told whose first copy was
/// never answered: that one has ended it, and nobody has counted it.
fn end(kind: &SettleKind, reply: SettleReply) -> Option<Outcome> {
    match (reply, kind) {
        (SettleReply::Ended(outcome), _) => Some(outcome),
        (SettleReply::Done, SettleKind::Ack { .. }) | (SettleReply::Already(Settled::Ack), _) => {
            Some(Outcome::Answered)
        }
        (
            SettleReply::Done | SettleReply::Already(Settled::Bury),
            SettleKind::Bury { outcome, .. },
        ) => Some((*outcome).into()),
        _ => None,
    }
}

/// A status class, or the name of a transport fault.
fn reason(failure: Failure) -> &'static str {
    match failure.code {
        FailureCode::Status => metrics::status_class(failure.status),
        code => code.word(),
    }
}

/// One line an attempt at most: what an operator may want to know by itself is told at `info`.
fn log(shard: &ShardKeys, item: &SettleItem, reply: SettleReply) {
    let (queue, handle, word) = (shard.queue.as_str(), item.handle, item.kind.word().word());
    let (key, generation) = (handle.key(), handle.generation());
    match (reply, &item.kind) {
        (SettleReply::Fenced | SettleReply::Gone, _) => {
            warn!(queue, %key, %generation, word, ?reply, "too late: the lease was another's");
        }
        (SettleReply::Done, SettleKind::Bury { outcome, failure, .. }) => {
            let (outcome, code) = (Outcome::from(*outcome).word(), failure.code.word());
            info!(queue, %key, %generation, outcome, code, "dead");
        }
        (SettleReply::Done, SettleKind::Retry { delay, failure }) => {
            let (code, status) = (failure.code.word(), failure.status);
            debug!(queue, %key, %generation, code, status, ?delay, "to be tried again");
        }
        _ => debug!(queue, %key, %generation, word, ?reply, "settled"),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{model::Answer, script::Burial};

    use super::*;

    #[test]
    fn an_end_whose_first_answer_was_lost_is_counted_by_the_repeat() {
        let ack = SettleKind::Ack { status: 200, answer: Answer::default() };
        let failure = Failure { code: FailureCode::Connect, status: 0 };
        let bury = SettleKind::Bury { outcome: Burial::GaveUp, failure, answer: None };
        let retry = SettleKind::Retry { delay: std::time::Duration::ZERO, failure };
        for reply in [SettleReply::Done, SettleReply::Already(Settled::Ack)] {
            assert_eq!(end(&ack, reply), Some(Outcome::Answered));
        }
        for reply in [SettleReply::Done, SettleReply::Already(Settled::Bury)] {
            assert_eq!(end(&bury, reply), Some(Outcome::GaveUp));
        }
        // Buried because nobody could read what became of it: it was answered.
        assert_eq!(end(&bury, SettleReply::Already(Settled::Ack)), Some(Outcome::Answered));
        for reply in [SettleReply::Fenced, SettleReply::Gone] {
            assert_eq!(end(&ack, reply), None);
        }
        assert_eq!(end(&retry, SettleReply::Already(Settled::Retry)), None);
    }
}
