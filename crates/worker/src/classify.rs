//! What an attempt came to: is it retried, or is it final? Pure.

use std::time::Duration;

use holdfast_core::model::FailureCode;

use crate::breaker::Sign;

/// A failure of the transport: there is no whole answer. Each of them is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No connection: refused, unreachable, or the name does not resolve.
    Connect,
    /// No connection, with TLS, within the connect time-out, or within the time of the attempt.
    ConnectTimeout,
    /// The TLS handshake failed: an expired or unknown certificate, among others.
    Tls,
    /// The connection ended before the head of an answer.
    Reset,
    /// The same, because the other end did not say any more that it lives.
    Dead,
    /// The answer began, and then nothing came for the stall time-out.
    Stall,
    /// The whole attempt took longer than its time-out: it was sent, or waits on a connection, and no answer had begun.
    Unanswered,
    /// The same, and an answer had begun.
    AttemptTimeout,
    /// What came is no head of an HTTP answer, or one that contradicts itself.
    MalformedHead,
    /// The connection ended inside the body.
    CutBody,
    /// The body is not what its head or its own framing says.
    LyingBody,
    /// None of these: ours to look into.
    Internal,
}

impl From<Fault> for FailureCode {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Connect => Self::Connect,
            Fault::ConnectTimeout => Self::ConnectTimeout,
            Fault::Tls => Self::Tls,
            Fault::Reset | Fault::Dead => Self::Reset,
            Fault::Stall => Self::Stall,
            Fault::Unanswered | Fault::AttemptTimeout => Self::AttemptTimeout,
            Fault::MalformedHead => Self::MalformedHead,
            Fault::CutBody => Self::CutBody,
            Fault::LyingBody => Self::LyingBody,
            Fault::Internal => Self::Internal,
        }
    }
}

/// Whether a status asks for another attempt.
///
/// These say "not now": the same request may well succeed later. Every other status, a redirect
/// too, is the gateway's answer to this very request and would only come again.
pub(crate) fn is_retried(status: u16) -> bool {
    match status {
        408 | 409 | 425 | 429 => true,
        501 | 505 => false,
        500..=599 => true,
        _ => false,
    }
}

/// What an answer says of its target; `asked` is its `Retry-After`.
pub(crate) fn sign_of_status(status: u16, asked: Option<Duration>) -> Sign {
    match status {
        429 => Sign::Busy { reason: "429", asked },
        503 => Sign::Busy { reason: "503", asked },
        _ => Sign::Answered,
    }
}

/// What a fault says of its target: nothing, unless there was no connection, or no answer at all in the time of an attempt,
/// or in that in which who lives says so.
pub(crate) fn sign_of_fault(fault: Fault) -> Option<Sign> {
    let reason = FailureCode::from(fault).word();
    match fault {
        Fault::Connect | Fault::ConnectTimeout | Fault::Tls => Some(Sign::Unreachable { reason }),
        Fault::Unanswered => Some(Sign::Silent { reason }),
        Fault::Dead => Some(Sign::Dead { reason }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_spared_when_it_sends_calls_away_is_silent_or_can_not_be_reached() {
        let asked = Some(Duration::from_secs(3));
        assert_eq!(sign_of_status(429, asked), Sign::Busy { reason: "429", asked });
        assert_eq!(sign_of_status(503, None), Sign::Busy { reason: "503", asked: None });
        for status in [200, 302, 400, 404, 408, 409, 425, 500, 502, 504] {
            assert_eq!(sign_of_status(status, asked), Sign::Answered, "{status}");
        }
        for fault in [Fault::Connect, Fault::ConnectTimeout, Fault::Tls] {
            assert!(matches!(sign_of_fault(fault), Some(Sign::Unreachable { .. })));
        }
        let silent = Sign::Silent { reason: "attempt-timeout" };
        assert_eq!(sign_of_fault(Fault::Unanswered), Some(silent));
        assert_eq!(sign_of_fault(Fault::Dead), Some(Sign::Dead { reason: "reset" }));
        for fault in [Fault::Reset, Fault::Stall, Fault::AttemptTimeout, Fault::CutBody] {
            assert_eq!(sign_of_fault(fault), None);
        }
    }

    #[test]
    fn statuses_that_say_not_now_are_retried_and_nothing_else_is() {
        let retried: Vec<u16> = (100..=999).filter(|status| is_retried(*status)).collect();
        let mut expected = vec![408, 409, 425, 429];
        expected.extend((500..=599).filter(|status| ![501, 505].contains(status)));
        assert_eq!(retried, expected);
    }

    #[test]
    fn permanent_refusals_are_final() {
        for status in [200, 204, 301, 302, 400, 401, 403, 404, 405, 413, 418, 422, 501, 505, 600] {
            assert!(!is_retried(status), "{status}");
        }
    }
}
