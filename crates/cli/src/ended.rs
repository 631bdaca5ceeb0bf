//! How a request ended, as a result tells it, and as a line of an OpenAI batch's output.
//!
//! A body that is JSON stands in the line byte for byte, but that line ends between its tokens become spaces: a line must
//! stay one. Any other body is a JSON string, with `body_encoding` beside it: `text`, or `base64` for what is no UTF-8; and
//! with the `content_type` and `content_encoding` that the gateway gave it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::Failure;
use crate::reply::{Refusal, Reply};

/// The outcome of an answer.
const ANSWERED: &str = "answered";

/// A result.
#[derive(Debug)]
pub(crate) struct Ended {
    /// One of the outcomes of docs/http.md.
    pub(crate) outcome: String,
    /// The gateway's status, if it gave one.
    pub(crate) status: Option<u16>,
    pub(crate) attempts: Option<String>,
    pub(crate) generation: Option<String>,
    reply: Reply,
}

/// A line of a batch's output.
#[derive(Debug, Serialize)]
pub(crate) struct OutputLine<'a> {
    pub(crate) id: &'a str,
    pub(crate) custom_id: Option<&'a RawValue>,
    pub(crate) response: Option<Response>,
    pub(crate) error: Option<LineError>,
}

/// The gateway's answer.
#[derive(Debug, Serialize)]
pub(crate) struct Response {
    status_code: u16,
    request_id: Option<String>,
    body: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_encoding: Option<String>,
}

/// Why there is none.
#[derive(Debug, Serialize)]
pub(crate) struct LineError {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl From<Refusal> for LineError {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code, message: refusal.detail }
    }
}

impl Ended {
    /// Reads a result that is no longer awaited.
    pub(crate) fn read(reply: Reply) -> Result<Self, Refusal> {
        let text = |name| reply.header(name).map(str::to_owned);
        let Some(outcome) = text("holdfast-outcome") else { return Err(reply.refusal()) };
        let status = reply.header("holdfast-status").and_then(|status| status.parse().ok());
        let (attempts, generation) = (text("holdfast-attempts"), text("holdfast-generation"));
        Ok(Self { outcome, status, attempts, generation, reply })
    }

    /// Whether there is an answer, and a good one.
    pub(crate) fn is_success(&self) -> bool {
        self.outcome == ANSWERED && self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// The answer's bytes, or the problem that stands for one.
    pub(crate) fn body(&self) -> &[u8] {
        &self.reply.body
    }

    /// The facts on one line.
    pub(crate) fn told(&self) -> String {
        let mut told = self.outcome.clone();
        let status = self.status.map(|status| status.to_string());
        let kind = self.reply.header("content-type").map(str::to_owned);
        let facts = [
            ("status", &status),
            ("attempts", &self.attempts),
            ("generation", &self.generation),
            ("content-type", &kind),
        ];
        for (name, value) in facts {
            if let Some(value) = value {
                told.push_str(&format!(", {name} {value}"));
            }
        }
        told
    }

    /// The result as a line of a batch's output.
    pub(crate) fn line<'a>(
        &self,
        id: &'a str,
        custom_id: Option<&'a RawValue>,
    ) -> Result<OutputLine<'a>, Failure> {
        let (response, error) = match (self.outcome.as_str(), self.status) {
            (ANSWERED, Some(status)) => (Some(self.response(status)?), None),
            (ANSWERED, None) => return Err(Failure::Nonsense("an answer without a status")),
            (outcome, _) => {
                let (code, message) = (outcome.to_owned(), self.reply.refusal().detail);
                (None, Some(LineError { code, message }))
            }
        };
        Ok(OutputLine { id, custom_id, response, error })
    }

    fn response(&self, status_code: u16) -> Result<Response, Failure> {
        let (body, body_encoding) = embedded(self.body())?;
        // The gateway's own name for its call, else ours for the submission.
        let theirs = self.reply.header("holdfast-gateway-x-request-id").filter(|id| !id.is_empty());
        let request_id = theirs.map(str::to_owned).or_else(|| self.generation.clone());
        // JSON needs no word about it.
        let said = |name| body_encoding.and_then(|_| self.said(name));
        let (content_type, content_encoding) = (said("content-type"), said("content-encoding"));
        Ok(Response {
            status_code,
            request_id,
            body,
            body_encoding,
            content_type,
            content_encoding,
        })
    }

    /// What a header says, in as many lines as it may, as text of whatever it is.
    fn said(&self, name: &str) -> Option<String> {
        let values = self.reply.headers.get_all(name).iter();
        let values: Vec<_> =
            values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// A body as a JSON value on one line, and how it is to be read if it was none before.
pub(crate) fn embedded(body: &[u8]) -> Result<(Box<RawValue>, Option<&'static str>), Failure> {
    const FAILED: Failure = Failure::Nonsense("a body that can't be written as JSON");
    if let Ok(json) = serde_json::from_slice::<&RawValue>(body) {
        if !json.get().contains(['\n', '\r']) {
            return Ok((json.to_owned(), None));
        }
        // Inside of strings JSON has no bare line ends: these stand between tokens.
        let line = json.get().replace(['\n', '\r'], " ");
        return RawValue::from_string(line).map(|line| (line, None)).map_err(|_| FAILED);
    }
    let written = match std::str::from_utf8(body) {
        Ok(text) => to_raw_value(text).map(|text| (text, Some("text"))),
        Err(_) => to_raw_value(&STANDARD.encode(body)).map(|text| (text, Some("base64"))),
    };
    written.map_err(|_| FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::tests::reply;

    fn answered(status: &str, body: &[u8]) -> Ended {
        let headers = [
            ("holdfast-outcome", "answered"),
            ("holdfast-status", status),
            ("holdfast-attempts", "1"),
            ("holdfast-generation", "ab"),
        ];
        Ended::read(reply(200, &headers, body)).unwrap()
    }

    fn line_of(ended: &Ended) -> String {
        let custom_id: &RawValue = serde_json::from_str("\"\\u0041\"").unwrap();
        serde_json::to_string(&ended.line("f.1", Some(custom_id)).unwrap()).unwrap()
    }

    #[test]
    fn a_json_answer_stands_in_its_line_byte_for_byte() {
        let body = "{ \"n\": 1.0, \"s\":\"\\ud83d \u{2028}\", \"n\":1e400,\"e\":[ ] }";
        let line = line_of(&answered("200", body.as_bytes()));
        let expected = format!(
            r#"{{"id":"f.1","custom_id":"\u0041","response":{{"status_code":200,"request_id":"ab","body":{body}}},"error":null}}"#
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn a_pretty_answer_stays_on_its_line_and_keeps_its_tokens() {
        let line = line_of(&answered("200", b"{\r\n  \"a\": \"\\n\"\n}\n"));
        assert!(line.contains(r#""body":{    "a": "\n" }"#), "{line}");
        assert!(!line.contains(['\n', '\r']));
    }

    #[test]
    fn an_answer_that_is_no_json_is_a_string_that_says_what_it_is() {
        let line = line_of(&answered("502", b"<html>\n"));
        assert!(line.contains(r#""body":"<html>\n","body_encoding":"text""#), "{line}");
        let line = line_of(&answered("200", b"\xff\xfe"));
        assert!(line.contains(r#""body":"//4=","body_encoding":"base64""#), "{line}");
        let line = line_of(&answered("204", b""));
        assert!(line.contains(r#""body":"","body_encoding":"text""#), "{line}");
    }

    fn answered_with(headers: &[(&'static str, &str)], body: &[u8]) -> String {
        let ours = [("holdfast-outcome", "answered"), ("holdfast-status", "200")];
        let ours = [&ours[..], &[("holdfast-generation", "ab")], headers].concat();
        line_of(&Ended::read(reply(200, &ours, body)).unwrap())
    }

    #[test]
    fn a_string_says_what_its_bytes_are_and_a_json_answer_speaks_for_itself() {
        let packed = [("content-type", "application/json"), ("content-encoding", "gzip")];
        let line = answered_with(&packed, b"\x1f\x8b");
        let told = r#""body":"H4s=","body_encoding":"base64","content_type":"application/json","content_encoding":"gzip"}"#;
        assert!(line.contains(told), "{line}");
        let line = answered_with(&[("content-type", "text/html; charset=\u{e9}")], b"<");
        assert!(line.contains(r#""content_type":"text/html; charset="#), "{line}");
        assert!(!line.contains("content_encoding"), "{line}");
        let line = answered_with(&packed[..1], b"{}");
        assert!(line.contains(r#""body":{}}"#), "{line}");
    }

    #[test]
    fn the_id_of_an_answer_is_the_gateways_own_where_it_gave_one() {
        let id = |value| answered_with(&[("holdfast-gateway-x-request-id", value)], b"{}");
        assert!(id("up-77").contains(r#""request_id":"up-77""#));
        for none in ["", "caf\u{e9}"] {
            assert!(id(none).contains(r#""request_id":"ab""#), "{none}");
        }
    }

    #[test]
    fn an_end_without_an_answer_is_an_error_named_by_its_outcome() {
        let problem =
            br#"{"type":"/problems/gave-up","title":"t","status":200,"detail":"all failed"}"#;
        let ended = Ended::read(reply(200, &[("holdfast-outcome", "gave-up")], problem)).unwrap();
        assert!(!ended.is_success());
        let line = line_of(&ended);
        let expected = r#""response":null,"error":{"code":"gave-up","message":"all failed"}}"#;
        assert!(line.ends_with(expected), "{line}");
    }

    #[test]
    fn only_a_2xx_is_a_success() {
        assert!(answered("200", b"{}").is_success() && answered("204", b"").is_success());
        assert!(!answered("302", b"{}").is_success() && !answered("400", b"{}").is_success());
    }

    #[test]
    fn a_reply_without_an_outcome_is_a_refusal() {
        let problem = br#"{"type":"/problems/unknown-request","detail":"nothing is kept"}"#;
        let refusal = Ended::read(reply(404, &[], problem)).unwrap_err();
        assert_eq!(refusal.code, "unknown-request");
    }
}
