//! What a list is asked for.

use holdfast_core::model::Home;
use holdfast_core::script::MAX_ITEMS;

use super::cursor::Cursor;
use crate::problem::{Kind, Problem};
use crate::query::pairs;

/// Rows of a page whose caller does not say how many.
const LIMIT: usize = 100;

/// A state that rows can be asked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// That of a home.
    At(Home),
    /// Leased, and its worker is being told to stop.
    Cancelling,
}

impl State {
    /// Every state, in the order of the homes.
    pub(crate) const ALL: [Self; 7] = [
        Self::At(Home::Pending),
        Self::At(Home::Suspects),
        Self::At(Home::Delayed),
        Self::At(Home::Leased),
        Self::Cancelling,
        Self::At(Home::Finished),
        Self::At(Home::Dead),
    ];

    /// The word for it, as a status has it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::At(home) => home.word(),
            Self::Cancelling => "cancelling",
        }
    }

    /// Where those are that have it.
    pub(super) fn home(self) -> Home {
        match self {
            Self::At(home) => home,
            Self::Cancelling => Home::Leased,
        }
    }
}

/// The query of a list.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) state: Option<State>,
    pub(super) cursor: Option<Cursor>,
    pub(super) limit: usize,
}

impl Asked {
    pub(super) fn parse(text: Option<&str>) -> Result<Self, Problem> {
        let (mut state, mut cursor, mut limit) = (None, None, None);
        for (name, value) in pairs(text) {
            let is_twice = match name {
                "state" => state.replace(read_state(value)?).is_some(),
                "cursor" => cursor.replace(read_cursor(value)?).is_some(),
                "limit" => limit.replace(read_limit(value)?).is_some(),
                _ => return Err(refused("the query parameters here are state, cursor and limit")),
            };
            if is_twice {
                return Err(refused("a query parameter stands there twice"));
            }
        }
        if cursor.as_ref().is_some_and(|cursor: &Cursor| cursor.state() != state) {
            return Err(
                refused("cursor belongs to a list of another state").with("parameter", "cursor")
            );
        }
        Ok(Self { state, cursor, limit: limit.unwrap_or(LIMIT) })
    }
}

fn read_state(value: &str) -> Result<State, Problem> {
    State::ALL.into_iter().find(|state| state.word() == value).ok_or_else(|| {
        let words = State::ALL.map(State::word).join(", ");
        Problem::new(Kind::InvalidQuery, format!("state must be one of {words}"))
            .with("parameter", "state")
    })
}

fn read_cursor(value: &str) -> Result<Cursor, Problem> {
    value.parse().map_err(|_| {
        refused("cursor must be as the page before gave it").with("parameter", "cursor")
    })
}

fn read_limit(value: &str) -> Result<usize, Problem> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let limit = value.parse().ok().filter(|limit| is_number && (1..=MAX_ITEMS).contains(limit));
    limit.ok_or_else(|| {
        Problem::new(Kind::InvalidQuery, format!("limit must be from 1 to {MAX_ITEMS}, in digits"))
            .with("parameter", "limit")
    })
}

fn refused(detail: &'static str) -> Problem {
    Problem::new(Kind::InvalidQuery, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses(text: &str) -> bool {
        let refused = Asked::parse(Some(text)).map(drop);
        refused.is_err_and(|problem| {
            assert_eq!(problem.kind(), Kind::InvalidQuery);
            true
        })
    }

    #[test]
    fn a_list_is_asked_for_by_state_cursor_and_limit() {
        let asked = Asked::parse(None).unwrap();
        assert_eq!((asked.state, asked.cursor, asked.limit), (None, None, LIMIT));
        let cursor = Cursor::start(Some(State::Cancelling));
        let text = format!("limit=7&cursor={cursor}&state=cancelling");
        let asked = Asked::parse(Some(&text)).unwrap();
        assert_eq!((asked.state, asked.limit), (Some(State::Cancelling), 7));
        assert_eq!(asked.cursor, Some(cursor));
    }

    #[test]
    fn what_a_list_does_not_know_is_refused() {
        for text in ["limit=0", "limit=257", "limit=+5", "limit=", "limit=1&limit=1", "State=dead"]
        {
            assert!(refuses(text), "{text}");
        }
        for text in ["state=", "state=Pending", "state=nowhere", "cursor=", "cursor=x", "wait=1"] {
            assert!(refuses(text), "{text}");
        }
        let other = format!("state=dead&cursor={}", Cursor::start(None));
        assert!(refuses(&other), "of another list");
    }
}
