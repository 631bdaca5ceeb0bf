//! Where a list goes on, as its caller carries it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use holdfast_core::inspect::Position;
use holdfast_core::model::Home;

use super::asked::State;

const VERSION: u8 = 1;
/// Version, state, home, shard.
const FIXED: usize = 7;
/// The longest beginning of a member: a fence, a bar and a sequence.
const LONGEST: usize = 41;

/// A text that is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Where a list goes on: which list, in which home and shard, behind which member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    state: Option<State>,
    home: Home,
    shard: u32,
    after: Option<Position>,
}

impl Cursor {
    /// The beginning of a list.
    pub(super) fn start(state: Option<State>) -> Self {
        let home = state.map_or(Home::ALL[0], State::home);
        Self { state, home, shard: 0, after: None }
    }

    pub(super) fn state(&self) -> Option<State> {
        self.state
    }

    pub(super) fn home(&self) -> Home {
        self.home
    }

    pub(super) fn shard(&self) -> usize {
        self.shard as usize
    }

    pub(super) fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    /// Moves behind a member.
    pub(super) fn pass(&mut self, position: Position) {
        self.after = Some(position);
    }

    /// The next shard, or the first one of the next home; none at the end.
    pub(super) fn next(self, shards: usize) -> Option<Self> {
        if self.shard() + 1 < shards {
            return Some(Self { shard: self.shard + 1, after: None, ..self });
        }
        let homes = Home::ALL.iter().skip_while(|home| **home != self.home);
        let home = homes.skip(1).copied().find(|_| self.state.is_none())?;
        Some(Self { home, shard: 0, after: None, ..self })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = State::ALL.iter().position(|state| Some(*state) == self.state);
        let state = state.map_or(0, |at| at + 1);
        let home = Home::ALL.iter().position(|home| *home == self.home).unwrap_or_default();
        // Both lists are short.
        let mut bytes = vec![VERSION, state as u8, home as u8];
        bytes.extend(self.shard.to_be_bytes());
        if let Some(Position { score, member }) = &self.after {
            bytes.extend(score.to_be_bytes());
            bytes.extend(member);
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Cursor {
    type Err = Broken;

    fn from_str(text: &str) -> Result<Self, Broken> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Broken)?;
        let ([VERSION, state, home, shard @ ..], place) =
            bytes.split_first_chunk::<FIXED>().ok_or(Broken)?
        else {
            return Err(Broken);
        };
        let state = match state.checked_sub(1) {
            None => None,
            Some(at) => Some(*State::ALL.get(usize::from(at)).ok_or(Broken)?),
        };
        let home = *Home::ALL.get(usize::from(*home)).ok_or(Broken)?;
        let fits = state.is_none_or(|state| state.home() == home);
        let after = match place.split_first_chunk() {
            None if place.is_empty() => None,
            Some((score, member)) if member.len() <= LONGEST => {
                let (score, member) = (u64::from_be_bytes(*score), Bytes::copy_from_slice(member));
                // Beyond this a score is no time, and no double tells it from its neighbours.
                Some(Position { score, member }).filter(|it| it.score < 1 << 53)
            }
            _ => return Err(Broken),
        };
        let is_whole = fits && (after.is_some() || place.is_empty());
        is_whole
            .then_some(Self { state, home, shard: u32::from_be_bytes(*shard), after })
            .ok_or(Broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_was_given() {
        let mut cursor = Cursor::start(None);
        for _ in 0..3 {
            assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
            cursor
                .pass(Position { score: 1_790_000_000_000, member: Bytes::from_static(&[7; 41]) });
            assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
            cursor = cursor.next(2).unwrap();
        }
        let url = cursor.to_string();
        assert!(url.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    }

    #[test]
    fn a_list_goes_through_every_shard_of_every_home_and_one_of_a_state_stays_there() {
        let mut places = Vec::new();
        let mut at = Some(Cursor::start(None));
        while let Some(cursor) = at {
            places.push((cursor.home(), cursor.shard()));
            at = cursor.next(2);
        }
        let expected: Vec<_> =
            Home::ALL.into_iter().flat_map(|home| [(home, 0), (home, 1)]).collect();
        assert_eq!(places, expected);
        let cancelling = Cursor::start(Some(State::Cancelling));
        assert_eq!(cancelling.home(), Home::Leased);
        assert_eq!(cancelling.next(1), None);
    }

    #[test]
    fn a_text_that_was_never_given_is_refused() {
        let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let whole = |rest: &[u8]| encoded(&[&[1, 0, 0, 0, 0, 0, 0][..], rest].concat());
        assert!(whole(&[]).parse::<Cursor>().is_ok());
        assert!(whole(&[0; 49]).parse::<Cursor>().is_ok());
        for text in [
            "".to_owned(),
            "*".to_owned(),
            "AQ==".to_owned(),
            encoded(&[2, 0, 0, 0, 0, 0, 0]),
            encoded(&[1, 9, 0, 0, 0, 0, 0]),
            encoded(&[1, 0, 6, 0, 0, 0, 0]),
            // The dead are no place to look for what is pending.
            encoded(&[1, 1, 5, 0, 0, 0, 0]),
            whole(&[0; 7]),
            whole(&[0; 50]),
            whole(&[255; 16]),
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(Broken), "{text}");
        }
    }
}
