//! The script: rules that say which arrivals get something else than a plain answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use tokio::sync::watch;

pub use payload::Payload;
pub use rule::{HeaderIs, Match, Rule, Trickle};

mod payload;
mod rule;

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
