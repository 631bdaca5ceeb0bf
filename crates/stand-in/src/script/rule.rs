//! A rule as it is written.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Payload;

/// What happens to the arrivals that fit. As JSON, each field may be left out, and none may be unknown.
///
/// Order of events: the hold of the whole stand-in, `delay_ms`, then `hang`, `raw` or the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Which arrivals fit; by default all.
    #[serde(rename = "match")]
    pub when: Match,
    /// To how many fitting arrivals the rule applies before it is used up; none: to all.
    pub times: Option<u64>,
    /// How long to wait before the answer's head, in ms; none: as the options of the stand-in say.
    pub delay_ms: Option<u64>,
    /// The status, 200 to 999. Without a `body`, 2xx other than 204 and 205 come with the plain answer, the
    /// rest of 3xx and all above with OpenAI's error object, 204, 205 and 304 with nothing.
    pub status: Option<u16>,
    /// Headers put over those of the answer. No `content-length` and no `transfer-encoding`: `raw` can lie.
    pub headers: BTreeMap<String, String>,
    /// The body, instead of the plain answer's.
    pub body: Option<Payload>,
    /// Bytes written as they are instead of an HTTP answer; then the connection ends (FIN).
    pub raw: Option<Payload>,
    /// Resets the connection (RST) after the head and so many bytes of the body; 0: instead of the head. An
    /// answer that is not longer is given whole.
    pub cut_after_bytes: Option<u64>,
    /// Falls silent after the head and so many bytes of the body, and leaves the connection open.
    pub stall_after_bytes: Option<u64>,
    /// Gives the body piece by piece.
    pub trickle: Option<Trickle>,
    /// Closes the connection after the answer, saying so in its head (HTTP/1.1 only).
    pub close: bool,
    /// Never answers, and leaves the connection open.
    pub hang: bool,
}

/// Conditions of a [`Rule`]; all that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// The path, without its query.
    pub path: Option<String>,
    /// A header that the request carries.
    pub header: Option<HeaderIs>,
    /// Text that the body contains, byte for byte.
    pub body_contains: Option<String>,
    /// The arrival's number.
    pub arrival: Option<u64>,
    /// Only the n-th of the arrivals that fit so far, counted from 1 since the script was set.
    pub nth: Option<u64>,
    /// Only each n-th of them.
    pub every: Option<u64>,
}

/// A header and its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderIs {
    /// Its name; case does not matter.
    pub name: String,
    /// Its whole value; none: any.
    #[serde(default)]
    pub value: Option<String>,
}

/// A pace: at most so many bytes, then a pause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trickle {
    /// Bytes a piece; at least 1.
    pub bytes: usize,
    /// The pause after each piece, in ms.
    pub every_ms: u64,
}

impl Rule {
    /// A rule for every arrival that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A rule for the arrivals whose body contains a text.
    pub fn on_body(text: &str) -> Self {
        Self {
            when: Match { body_contains: Some(text.to_owned()), ..Match::default() },
            ..Self::default()
        }
    }

    /// A rule for the n-th arrival from now on.
    pub fn on_nth(nth: u64) -> Self {
        Self { when: Match { nth: Some(nth), ..Match::default() }, ..Self::default() }
    }

    /// Sets `times`.
    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Sets `delay_ms`.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay_ms: Some(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)), ..self }
    }

    /// Sets `status`.
    pub fn status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sets `body`.
    pub fn body(self, body: impl Into<Payload>) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    /// Sets `raw`.
    pub fn raw(self, raw: impl Into<Payload>) -> Self {
        Self { raw: Some(raw.into()), ..self }
    }

    /// Sets `cut_after_bytes`.
    pub fn cut_after(self, bytes: u64) -> Self {
        Self { cut_after_bytes: Some(bytes), ..self }
    }

    /// Sets `stall_after_bytes`.
    pub fn stall_after(self, bytes: u64) -> Self {
        Self { stall_after_bytes: Some(bytes), ..self }
    }

    /// Sets `trickle`.
    pub fn trickle(self, bytes: usize, every: Duration) -> Self {
        let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        Self { trickle: Some(Trickle { bytes, every_ms }), ..self }
    }

    /// Sets `close`.
    pub fn close(self) -> Self {
        Self { close: true, ..self }
    }

    /// Sets `hang`.
    pub fn hang(self) -> Self {
        Self { hang: true, ..self }
    }
}
