//! How an attempt is to be settled. Pure: the time and the random source are passed in.

use std::time::{Duration, SystemTime};

use holdfast_core::model::{Failure, FailureCode};
use holdfast_core::script::{Burial, SettleKind};
use rand::Rng;

use crate::backoff;
use crate::breaker::Sign;
use crate::classify::{Fault, is_retried, sign_of_fault};
use crate::gateway::{Answer, Reply};

/// The clock of Redis is set back by no more than this.
const ANY_STEP: Duration = Duration::from_secs(24 * 3600);

/// What counts, beside the reply itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// Attempts so far, this one included.
    pub(crate) attempts: u32,
    /// How many there may be; none: the deadline bounds them.
    pub(crate) max_attempts: Option<u32>,
    /// Until the deadline.
    pub(crate) left: Duration,
    /// By the clock that deadlines are judged by.
    pub(crate) now: SystemTime,
    /// Whether it went out to see if an open breaker may close, and nothing of it has left.
    pub(crate) is_unsent_probe: bool,
}

/// Settles an attempt that came to an end by itself.
pub(crate) fn after(
    reply: Result<Reply, Fault>,
    at: &Circumstances,
    rng: &mut impl Rng,
) -> SettleKind {
    match reply {
        Err(fault) => after_fault(fault, None, at, rng),
        Ok(Reply::Broken(head, fault)) => after_fault(fault, Some(&head), at, rng),
        Ok(Reply::Whole(answer)) => match another_try(&answer, at, rng) {
            Some(retry) => retry,
            None => {
                let (status, answer) = answer.stored();
                SettleKind::Ack { status, answer }
            }
        },
        Ok(Reply::TooLarge(head)) => another_try(&head, at, rng).unwrap_or_else(|| {
            let (status, head) = head.stored();
            let failure = Failure { code: FailureCode::TooLarge, status };
            SettleKind::Bury { outcome: Burial::AnswerTooLarge, failure, answer: Some(head) }
        }),
    }
}

/// The deadline has passed while the call was under way: there is no answer to show.
///
/// `at`: what counts where a call was under way, which may have been the last that there may be.
pub(crate) fn after_deadline(at: Option<&Circumstances>) -> SettleKind {
    // Redis ends what could only start again after its deadline. Its clock may be behind ours by a
    // little, so the next start is put a little later. Not by more: ours is early where that of Redis was set back, and
    // what then has seconds left is tried again, but no more than `max_attempts` times, of which Redis does not know.
    let failure = Failure { code: FailureCode::AttemptTimeout, status: 0 };
    // Of a probe nothing of which has left there may be another, as after its other faults.
    let was_last = at.is_some_and(|at| at.is_last() && !at.is_unsent_probe);
    let delay = if was_last { ANY_STEP } else { Duration::from_secs(1) };
    SettleKind::Retry { delay, failure }
}

/// The request can't be made into a call.
pub(crate) fn unusable() -> SettleKind {
    let failure = Failure { code: FailureCode::Unusable, status: 0 };
    SettleKind::Bury { outcome: Burial::Unusable, failure, answer: None }
}

/// `head` is what came before the fault, if it asks for another attempt.
fn after_fault(
    fault: Fault,
    head: Option<&Answer>,
    at: &Circumstances,
    rng: &mut impl Rng,
) -> SettleKind {
    let failure = Failure { code: fault.into(), status: head.map_or(0, |head| head.status) };
    let unreachable = matches!(sign_of_fault(fault), Some(Sign::Unreachable { .. }));
    if unreachable && at.is_unsent_probe {
        // That says nothing of the request, and was no attempt: the next probe may go out with it again.
        return SettleKind::Release { sent: false, failure: Some(failure) };
    }
    if at.is_last() {
        return SettleKind::Bury { outcome: Burial::GaveUp, failure, answer: None };
    }
    // If no other attempt can start in time, Redis ends it as past its deadline.
    let asked = head.and_then(|head| asked_by(head, at));
    SettleKind::Retry { delay: backoff::delay(at.attempts, asked, at.left, rng), failure }
}

/// A retry, if the answer asks for one and another attempt can start in time.
fn another_try(answer: &Answer, at: &Circumstances, rng: &mut impl Rng) -> Option<SettleKind> {
    if !is_retried(answer.status) || at.is_last() {
        return None;
    }
    let delay = backoff::delay(at.attempts, asked_by(answer, at), at.left, rng);
    let failure = Failure { code: FailureCode::Status, status: answer.status };
    (delay < at.left).then_some(SettleKind::Retry { delay, failure })
}

/// How long an answer asks to be left alone.
fn asked_by(answer: &Answer, at: &Circumstances) -> Option<Duration> {
    backoff::retry_after(answer.header("retry-after"), at.now)
}

impl Circumstances {
    /// Whether there may be no other attempt.
    fn is_last(&self) -> bool {
        self.max_attempts.is_some_and(|max| self.attempts >= max)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn answer(status: u16) -> Answer {
        let headers = vec![("content-type", Bytes::from_static(b"text/plain"))];
        Answer { status, headers, body: Bytes::from_static(b"body") }
    }

    fn whole(status: u16) -> Result<Reply, Fault> {
        Ok(Reply::Whole(answer(status)))
    }

    fn at() -> Circumstances {
        Circumstances {
            attempts: 1,
            max_attempts: None,
            left: Duration::from_secs(600),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000),
            is_unsent_probe: false,
        }
    }

    fn decided(reply: Result<Reply, Fault>, at: Circumstances) -> SettleKind {
        after(reply, &at, &mut StdRng::seed_from_u64(7))
    }

    fn is_ack(kind: &SettleKind, expected: u16) -> bool {
        matches!(kind, SettleKind::Ack { status, answer }
            if *status == expected && &answer.body[..] == b"body" && answer.headers.len() == 1)
    }

    fn delay(kind: SettleKind) -> Duration {
        let SettleKind::Retry { delay, .. } = kind else { panic!("no retry: {kind:?}") };
        delay
    }

    #[test]
    fn a_final_answer_is_published_whatever_its_status() {
        for status in [200, 204, 302, 400, 404, 422, 501, 505] {
            assert!(is_ack(&decided(whole(status), at()), status), "{status}");
        }
    }

    #[test]
    fn a_busy_gateway_is_tried_again_with_its_status_as_the_reason() {
        for status in [408, 409, 425, 429, 500, 502, 503, 504] {
            let kind = decided(whole(status), at());
            let SettleKind::Retry { failure, .. } = &kind else { panic!("{status}: {kind:?}") };
            assert_eq!(*failure, Failure { code: FailureCode::Status, status });
            assert!(delay(kind) < Duration::from_secs(1));
        }
    }

    #[test]
    fn the_wait_grows_with_the_attempts() {
        let late = Circumstances { attempts: 7, ..at() };
        assert!(delay(decided(whole(503), late)) >= Duration::from_secs(30));
        assert!(delay(decided(Err(Fault::Reset), late)) >= Duration::from_secs(30));
    }

    #[test]
    fn retry_after_is_honoured_as_seconds_and_as_a_date() {
        let wish = |value: &str| {
            let headers = vec![("retry-after", Bytes::copy_from_slice(value.as_bytes()))];
            let answer = Answer { headers, ..answer(429) };
            delay(decided(Ok(Reply::Whole(answer)), at()))
        };
        let expected = Duration::from_secs(20)..=Duration::from_secs(25);
        assert!(expected.contains(&wish("20")));
        let date = httpdate::fmt_http_date(at().now + Duration::from_secs(20));
        assert!(expected.contains(&wish(&date)));
        assert!(wish("soon") < Duration::from_secs(1));
    }

    #[test]
    fn the_answer_of_the_last_attempt_is_published_although_it_asks_for_another() {
        let last = Circumstances { attempts: 3, max_attempts: Some(3), ..at() };
        assert!(is_ack(&decided(whole(503), last), 503));
        let kind = decided(whole(503), Circumstances { max_attempts: Some(4), ..last });
        assert!(matches!(kind, SettleKind::Retry { .. }));
    }

    #[test]
    fn the_answer_after_which_no_other_attempt_can_start_in_time_is_published() {
        let late = Circumstances { left: Duration::from_millis(400), ..at() };
        assert!(is_ack(&decided(whole(429), late), 429));
        assert!(is_ack(&decided(whole(429), Circumstances { left: Duration::ZERO, ..at() }), 429));
    }

    #[test]
    fn a_fault_of_the_last_attempt_gives_up_and_one_before_is_tried_again() {
        let last = Circumstances { attempts: 3, max_attempts: Some(3), ..at() };
        let failure = Failure { code: FailureCode::CutBody, status: 0 };
        assert_eq!(
            decided(Err(Fault::CutBody), last),
            SettleKind::Bury { outcome: Burial::GaveUp, failure, answer: None }
        );
        let kind = decided(Err(Fault::CutBody), Circumstances { attempts: 2, ..last });
        assert!(matches!(kind, SettleKind::Retry { failure: it, .. } if it == failure));
    }

    #[test]
    fn what_the_head_of_a_broken_answer_asks_for_is_honoured_and_its_status_told() {
        let broken = || {
            let headers = vec![("retry-after", Bytes::from_static(b"20"))];
            let head = Answer { headers, body: Bytes::new(), ..answer(429) };
            Ok(Reply::Broken(head, Fault::LyingBody))
        };
        let failure = Failure { code: FailureCode::LyingBody, status: 429 };
        let kind = decided(broken(), at());
        assert!(matches!(kind, SettleKind::Retry { failure: it, .. } if it == failure));
        assert!((Duration::from_secs(20)..=Duration::from_secs(25)).contains(&delay(kind)));
        let last = Circumstances { attempts: 3, max_attempts: Some(3), ..at() };
        let outcome = Burial::GaveUp;
        let buried = SettleKind::Bury { outcome, failure, answer: None };
        assert_eq!(decided(broken(), last), buried);
    }

    #[test]
    fn a_fault_shortly_before_the_deadline_is_left_to_redis_to_end() {
        let late = Circumstances { left: Duration::from_millis(100), ..at() };
        assert!(delay(decided(Err(Fault::Reset), late)) >= Duration::from_millis(500));
        assert!(delay(after_deadline(Some(&at()))) >= Duration::from_secs(1), "beyond any doubt");
    }

    #[test]
    fn whether_a_deadline_has_passed_is_decided_by_the_clock_of_redis() {
        // After a small step back of that one ours may have been up to some seconds too early for a claim that waited.
        let seconds_left = Duration::from_secs(2);
        let first = Circumstances { max_attempts: Some(2), ..at() };
        for at in [None, Some(&first)] {
            assert!(delay(after_deadline(at)) < seconds_left, "beyond what has not passed: {at:?}");
        }
    }

    #[test]
    fn a_deadline_that_was_seen_too_early_gives_the_last_attempt_no_other() {
        // However far the clock of Redis was set back meanwhile: Redis knows no `max_attempts`.
        let hours_left = Duration::from_secs(6 * 3600);
        let last = Circumstances { attempts: 3, max_attempts: Some(3), ..at() };
        assert!(delay(after_deadline(Some(&last))) > hours_left, "it would start once more");
        let unsent = Circumstances { is_unsent_probe: true, ..last };
        assert!(delay(after_deadline(Some(&unsent))) < hours_left, "that was no attempt");
    }

    #[test]
    fn a_probe_without_a_connection_costs_its_request_no_attempt_not_even_the_last() {
        let last = Circumstances { attempts: 3, max_attempts: Some(3), ..at() };
        let unsent = Circumstances { is_unsent_probe: true, ..last };
        let failure = Some(Failure { code: FailureCode::Connect, status: 0 });
        let kind = decided(Err(Fault::Connect), unsent);
        assert_eq!(kind, SettleKind::Release { sent: false, failure });
        assert!(matches!(decided(Err(Fault::Connect), last), SettleKind::Bury { .. }));
        let kind = decided(Err(Fault::Internal), unsent);
        assert!(matches!(kind, SettleKind::Bury { .. }), "that may be the request's own");
    }

    #[test]
    fn an_answer_that_is_too_large_is_buried_with_its_head_unless_it_is_tried_again() {
        let kind = decided(Ok(Reply::TooLarge(answer(200))), at());
        let failure = Failure { code: FailureCode::TooLarge, status: 200 };
        let (_, head) = answer(200).stored();
        let outcome = Burial::AnswerTooLarge;
        assert_eq!(kind, SettleKind::Bury { outcome, failure, answer: Some(head) });
        let kind = decided(Ok(Reply::TooLarge(answer(500))), at());
        assert!(matches!(kind, SettleKind::Retry { .. }));
    }
}
