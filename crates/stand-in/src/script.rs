//! The script: rules that say which arrivals get something else than a plain answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

pub use payload::Payload;

mod payload;

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

/// A rule that can't be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule}: {field} {problem}")]
pub struct ScriptError {
    /// The rule's place in the list, from 1.
    pub rule: usize,
    /// The field at fault.
    pub field: &'static str,
    /// What it must be.
    pub problem: &'static str,
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

/// A rule whose words were turned into values.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) rule: Rule,
    pub(crate) status: Option<StatusCode>,
    pub(crate) headers: HeaderMap,
}

impl Checked {
    fn new(rule: Rule) -> Result<Self, (&'static str, &'static str)> {
        let status = rule.status.map(StatusCode::from_u16).transpose();
        let status = status.ok().filter(|status| status.is_none_or(|it| it.as_u16() >= 200));
        let status = status.ok_or(("status", "must be from 200 to 999"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &rule.headers {
            let name =
                HeaderName::try_from(name).map_err(|_| ("headers", "must have valid names"))?;
            if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
                return Err((
                    "headers",
                    "must leave the length to the stand-in; use raw to lie about it",
                ));
            }
            let value = HeaderValue::from_bytes(value.as_bytes());
            headers.insert(name, value.map_err(|_| ("headers", "must have valid values"))?);
        }
        if rule.trickle.is_some_and(|trickle| trickle.bytes == 0) {
            return Err(("trickle", "must give at least 1 byte a piece"));
        }
        if rule.when.every == Some(0) || rule.when.nth == Some(0) || rule.when.arrival == Some(0) {
            return Err(("match", "counts from 1"));
        }
        Ok(Self { rule, status, headers })
    }
}

/// A rule and what it has seen.
struct Live {
    rule: Arc<Checked>,
    /// Arrivals that met its conditions but for `nth` and `every`.
    fitted: u64,
    used: u64,
}

impl Live {
    /// Whether the rule applies to this arrival; counts it either way.
    fn takes(&mut self, number: u64, parts: &Parts, body: &[u8]) -> bool {
        let Rule { when, times, .. } = &self.rule.rule;
        if !when.fits(number, parts, body) || times.is_some_and(|times| self.used >= times) {
            return false;
        }
        self.fitted += 1;
        let chosen = when.nth.is_none_or(|nth| self.fitted == nth)
            && when.every.is_none_or(|every| self.fitted.is_multiple_of(every));
        self.used += u64::from(chosen);
        chosen
    }
}

impl Match {
    fn fits(&self, number: u64, parts: &Parts, body: &[u8]) -> bool {
        let contains = |text: &String| {
            text.is_empty() || body.windows(text.len()).any(|window| window == text.as_bytes())
        };
        let carries = |wanted: &HeaderIs| {
            let mut values = parts.headers.get_all(&wanted.name).iter();
            values.any(|it| {
                wanted.value.as_ref().is_none_or(|value| it.as_bytes() == value.as_bytes())
            })
        };
        self.arrival.is_none_or(|wanted| wanted == number)
            && self.path.as_ref().is_none_or(|path| path == parts.uri.path())
            && self.header.as_ref().is_none_or(carries)
            && self.body_contains.as_ref().is_none_or(contains)
    }
}

/// The rules in force, and the hold.
#[derive(Default)]
pub(crate) struct Script {
    rules: Mutex<Vec<Live>>,
    hold: watch::Sender<Hold>,
}

#[derive(Clone, Copy, Default)]
struct Hold {
    on: bool,
    /// Lets a waiter see a release that a new hold followed at once.
    releases: u64,
}

impl Script {
    pub(crate) fn replace(&self, rules: Vec<Rule>) -> Result<(), ScriptError> {
        let live = rules.into_iter().enumerate().map(|(at, rule)| match Checked::new(rule) {
            Ok(rule) => Ok(Live { rule: Arc::new(rule), fitted: 0, used: 0 }),
            Err((field, problem)) => Err(ScriptError { rule: at + 1, field, problem }),
        });
        let live = live.collect::<Result<_, _>>()?;
        *self.rules() = live;
        Ok(())
    }

    /// Takes an arrival in by `arrive`, which says its number, and finds its rule. Both under one lock, so
    /// that rules count in the order of the numbers.
    pub(crate) fn pick<R>(
        &self,
        parts: &Parts,
        body: &[u8],
        arrive: impl FnOnce() -> (u64, R),
    ) -> (R, Option<Arc<Checked>>) {
        let mut rules = self.rules();
        let (number, record) = arrive();
        let rule = rules
            .iter_mut()
            .find_map(|live| live.takes(number, parts, body).then(|| Arc::clone(&live.rule)));
        (record, rule)
    }

    pub(crate) fn hold(&self, on: bool) {
        self.hold.send_modify(|hold| {
            hold.on = on;
            hold.releases += u64::from(!on);
        });
    }

    /// Waits while arrivals are held.
    pub(crate) async fn released(&self) {
        let at_arrival = *self.hold.borrow();
        if at_arrival.on {
            let free = |hold: &Hold| !hold.on || hold.releases != at_arrival.releases;
            // Its sender is this very value: it can't be closed meanwhile.
            let _ = self.hold.subscribe().wait_for(free).await;
        }
    }

    /// A panic under the lock leaves whole rules only.
    fn rules(&self) -> MutexGuard<'_, Vec<Live>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
