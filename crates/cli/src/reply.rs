//! What the API answered.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::OwnedSemaphorePermit;

/// The longest that is waited because a server says so.
const LONGEST_PAUSE: u64 = 120;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Its share of the memory for answers.
    _share: Option<OwnedSemaphorePermit>,
}

/// A no of the API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Refusal {
    /// The status.
    pub(crate) status: u16,
    /// The problem's name, as docs/problems.md explains it.
    pub(crate) code: String,
    /// What is told about it.
    pub(crate) detail: String,
    /// The generation that is kept, where the problem is about one.
    pub(crate) generation: Option<String>,
    /// The version that counts, where the problem is about an operator's word.
    pub(crate) version: Option<u64>,
}

/// The name of what no problem of Holdfast is.
pub(crate) const FOREIGN: &str = "not-holdfast";

impl Refusal {
    /// Whether it is no word on one request, but on the key, the queue or the address, which all requests of a run share.
    pub(crate) fn concerns_all(&self) -> bool {
        match self.status {
            401 | 403 | 405 => true,
            404 => self.code != "unknown-request",
            413 => false,
            _ => self.code == FOREIGN,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.status, self.detail)?;
        if let Some(version) = self.version {
            write!(f, "; the version that counts is {version}")?;
        }
        // The API knows the header, and not how this tool fills it; it knows its paths, and not who else has some.
        match self.code.as_str() {
            _ if self.status == StatusCode::UNAUTHORIZED => f.write_str(WHICH_KEY),
            "not-found" => f.write_str(WHICH_LISTENER),
            _ => Ok(()),
        }
    }
}

const WHICH_KEY: &str = "; the key is that of --key-file, or HOLDFAST_KEY without it";

const WHICH_LISTENER: &str = "; is --server the API's listener (producer.listen), and --operator the \
    operators' (producer.operator_listen)?";

/// What is read of a problem body (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    r#type: String,
    #[serde(default)]
    detail: String,
    generation: Option<String>,
    version: Option<u64>,
}

impl Reply {
    pub(crate) fn new(
        status: StatusCode,
        headers: HeaderMap,
        body: Bytes,
        share: OwnedSemaphorePermit,
    ) -> Self {
        Self { status, headers, body, _share: Some(share) }
    }

    /// What a part of an answer says, small and kept for a moment only.
    pub(crate) fn part(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers, body, _share: None }
    }

    /// The same once more.
    pub(crate) fn copy(&self) -> Self {
        Self::part(self.status, self.headers.clone(), self.body.clone())
    }

    /// Whether trying again later is what helps.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.status.as_u16(), 408 | 429 | 500..=599)
    }

    /// Whether something else than Holdfast gave it, such as the page of a proxy. That what was sent is too long is heeded
    /// whoever says so: it would be so again.
    pub(crate) fn is_foreign(&self) -> bool {
        #[derive(Deserialize)]
        struct Status {
            #[serde(rename = "generation")]
            _generation: IgnoredAny,
        }
        match self.status {
            StatusCode::PAYLOAD_TOO_LARGE => false,
            _ if self.header("holdfast-outcome").is_some() => false,
            status if status.is_success() => serde_json::from_slice::<Status>(&self.body).is_err(),
            _ => self.refusal().code == FOREIGN,
        }
    }

    /// A header of text, if it is there.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// When to come again, if the server says so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds: u64 = self.header(RETRY_AFTER.as_str())?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds.min(LONGEST_PAUSE)))
    }

    /// The answer as a no.
    pub(crate) fn refusal(&self) -> Refusal {
        let status = self.status.as_u16();
        let problem = serde_json::from_slice::<Problem>(&self.body).ok();
        // Others tell problems in the same form, mostly of the type about:blank.
        let Some(problem) = problem.filter(|problem| problem.r#type.contains("/problems/")) else {
            let detail = match status {
                413 => "too long for what stands before Holdfast, a proxy perhaps",
                _ => "an answer that Holdfast does not give: is --server its API?",
            };
            return Refusal {
                status,
                code: FOREIGN.to_owned(),
                detail: detail.to_owned(),
                generation: None,
                version: None,
            };
        };
        let code = problem.r#type.rsplit('/').next().unwrap_or_default().to_owned();
        let Problem { detail, generation, version, .. } = problem;
        Refusal { status, code, detail, generation, version }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use hyper::header::HeaderName;
    use tokio::sync::Semaphore;

    use super::*;

    /// An answer as a server would give it.
    pub(crate) fn reply(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> Reply {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        let share = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let body = Bytes::copy_from_slice(body);
        Reply::new(status.try_into().unwrap(), headers.iter().map(header).collect(), body, share)
    }

    #[test]
    fn a_problem_is_told_by_its_name_and_detail() {
        let body = br#"{"type":"/problems/id-reused","title":"t","status":422,"detail":"d","state":"leased","generation":"ab"}"#;
        let refusal = reply(422, &[], body).refusal();
        assert_eq!(refusal.to_string(), "id-reused (422): d");
        assert_eq!(refusal.generation.as_deref(), Some("ab"));
    }

    #[test]
    fn whose_word_was_overtaken_is_told_the_version_that_counts() {
        let body = br#"{"type":"/problems/overtaken","status":409,"detail":"d","version":7}"#;
        let told = reply(409, &[], body).refusal().to_string();
        assert_eq!(told, "overtaken (409): d; the version that counts is 7");
    }

    #[test]
    fn who_asks_the_wrong_listener_is_told_which_there_are() {
        let body = br#"{"type":"/problems/not-found","status":404,"detail":"no route"}"#;
        let told = reply(404, &[], body).refusal().to_string();
        assert!(told.contains("producer.listen") && told.contains("operator_listen"), "{told}");
    }

    #[test]
    fn who_needs_a_key_is_told_where_this_tool_takes_it_from() {
        let body = br#"{"type":"/problems/unauthorized","status":401,"detail":"a key is needed"}"#;
        let told = reply(401, &[], body).refusal().to_string();
        assert!(told.contains("--key-file") && told.contains("HOLDFAST_KEY"), "{told}");
    }

    #[test]
    fn an_answer_of_somebody_else_is_not_repeated() {
        for body in [&b"<html>S3CRET</html>"[..], br#"{"error":"S3CRET"}"#, b"", b"\xff"] {
            let refusal = reply(404, &[], body).refusal();
            assert_eq!(refusal.code, "not-holdfast");
            assert!(!refusal.to_string().contains("S3CRET"));
        }
    }

    #[test]
    fn what_another_program_answers_is_taken_for_no_word_of_holdfast() {
        let outcome = [("holdfast-outcome", "answered")];
        assert!(!reply(200, &outcome, b"<html>").is_foreign(), "the gateway's words");
        assert!(!reply(202, &[], br#"{"id":"a","generation":"ab"}"#).is_foreign());
        let problem = br#"{"type":"/problems/unknown-request","detail":"d"}"#;
        assert!(!reply(404, &[], problem).is_foreign());
        let others = br#"{"type":"about:blank","title":"Not Found","detail":"d"}"#;
        for (status, body) in
            [(200, &b"<html>"[..]), (202, b"{}"), (302, b""), (404, others), (422, b"{}")]
        {
            assert!(reply(status, &[], body).is_foreign(), "{status}");
        }
    }

    #[test]
    fn a_no_concerns_all_requests_unless_it_is_about_one() {
        let concerns_all = |status, code: &str| {
            let body = format!("{{\"type\":\"/problems/{code}\",\"detail\":\"d\"}}");
            reply(status, &[], body.as_bytes()).refusal().concerns_all()
        };
        for (status, code) in [
            (401, "unauthorized"),
            (403, "forbidden"),
            (404, "unknown-queue"),
            (404, "not-found"),
            (405, "method-not-allowed"),
        ] {
            assert!(concerns_all(status, code), "{code}");
        }
        for (status, code) in [(404, "unknown-request"), (400, "too-deep"), (413, "too-large")] {
            assert!(!concerns_all(status, code), "{code}");
        }
        for status in [200, 302, 400, 404, 422] {
            assert!(reply(status, &[], b"<html>").refusal().concerns_all(), "{status}");
        }
        let too_long = reply(413, &[], b"<html>");
        assert!(!too_long.refusal().concerns_all() && !too_long.is_foreign());
    }

    #[test]
    fn a_pause_is_at_most_two_minutes_whatever_is_asked() {
        let pause = |value| reply(503, &[("retry-after", value)], b"").retry_after();
        assert_eq!(pause("3"), Some(Duration::from_secs(3)));
        assert_eq!(pause("86400"), Some(Duration::from_secs(120)));
        assert_eq!(pause("soon"), None);
        assert_eq!(reply(503, &[], b"").retry_after(), None);
    }

    #[test]
    fn only_what_passes_by_itself_is_worth_another_try() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(reply(status, &[], b"").is_busy(), "{status}");
        }
        for status in [200, 202, 400, 404, 409, 413, 415, 422] {
            assert!(!reply(status, &[], b"").is_busy(), "{status}");
        }
    }
}
