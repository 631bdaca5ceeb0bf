//! What an attempt came to: is it retried, or is it final? Pure.

use holdfast_core::model::FailureCode;

/// A failure of the transport: there is no whole answer. Each of them is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No connection: refused, unreachable, or the name does not resolve.
    Connect,
    /// No connection, with TLS, within the connect time-out.
    ConnectTimeout,
    /// The TLS handshake failed: an expired or unknown certificate, among others.
    Tls,
    /// The connection ended before the head of an answer.
    Reset,
    /// The answer began, and then nothing came for the stall time-out.
    Stall,
    /// The whole attempt took longer than its time-out.
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
            Fault::Reset => Self::Reset,
            Fault::Stall => Self::Stall,
            Fault::AttemptTimeout => Self::AttemptTimeout,
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

#[cfg(test)]
mod tests {
    use super::*;

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
