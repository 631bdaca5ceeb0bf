//! Walking through a home part by part, by score and member: whatever stays where it is, is met exactly once, however much
//! comes and goes around it.

use bytes::Bytes;
use fred::types::Value;

use super::members;
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle, Home},
    redis::slot_of,
};

const CALL: &str = "walk";

/// How often a place is looked for again that moves while it is looked for.
const TRIES: usize = 24;
/// So many members before a place are read along, and up to so many if they are taken away too fast.
const MARGIN: usize = 16;
const MOST_MARGIN: usize = 1024;

/// A place in a home: behind all that has a lower score, or the same and a member that begins no later.
///
/// The beginning is as much of a member as says when it came: the sequence of its handle, and in `leased` the fence before
/// that. The rest names a request to whoever can guess its id, and stays out of what is given to callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The score of the last member that was met.
    pub score: u64,
    /// How that member begins.
    pub member: Bytes,
}

impl Position {
    fn of(home: Home, member: &Bytes, score: u64) -> Self {
        let sequence = 8;
        let length =
            if home == Home::Leased { size_of::<Fence>() + 1 + sequence } else { sequence };
        Self { score, member: member.slice(..length.min(member.len())) }
    }

    /// Whether a member stands behind it.
    fn is_before(&self, (member, score): &(Bytes, u64)) -> bool {
        let beginning = &member[..self.member.len().min(member.len())];
        (*score, beginning) > (self.score, &self.member)
    }
}

/// A part of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What was met, and the place behind it; none where a member is not laid out as this version writes it.
    pub members: Vec<(Option<Handle>, Position)>,
    /// Whether the home may go on behind it.
    pub more: bool,
}

/// The next members behind a place, or the first ones; at most `limit`.
///
/// With nothing in it and more to come, the home moves too fast: ask again.
pub async fn walk(
    redis: &Redis,
    (shard, home): (&ShardKeys, Home),
    after: Option<&Position>,
    limit: usize,
) -> Result<Part, StoreError> {
    let key = match home {
        Home::Pending => &shard.pending,
        Home::Suspects => &shard.suspects,
        Home::Delayed => &shard.delayed,
        Home::Leased => &shard.leased,
        Home::Finished => &shard.finished,
        Home::Dead => &shard.dead,
    };
    let (mut found, mut more) = match after {
        None => {
            let found = members(redis, CALL, key, 0, limit).await?;
            let more = found.len() == limit;
            (found, more)
        }
        Some(place) => behind(redis, key, place, limit).await?,
    };
    more |= found.len() > limit;
    found.truncate(limit);
    let met = |(member, score): &(Bytes, u64)| {
        let handle = match home {
            Home::Leased => Fence::split_member(member).map(|(_, handle)| handle),
            _ => Handle::try_from(member.as_ref()).ok(),
        };
        (handle, Position::of(home, member, *score))
    };
    Ok(Part { members: found.iter().map(met).collect(), more })
}

/// Finds a place by rank. Ranks move as members come and go; so a range counts only if it shows that nothing was passed
/// over: it begins at the very beginning, or with a member that is not behind the place.
async fn behind(
    redis: &Redis,
    key: &str,
    place: &Position,
    limit: usize,
) -> Result<(Vec<(Bytes, u64)>, bool), StoreError> {
    let mut margin = MARGIN;
    let (mut low, mut high) = (before_score(redis, key, place.score).await?, None);
    let mut at = low;
    for _ in 0..TRIES {
        let from = at.saturating_sub(margin);
        let rows = members(redis, CALL, key, from, limit + margin).await?;
        let is_full = rows.len() == limit + margin;
        let passed_over = from > 0 && rows.first().is_none_or(|first| place.is_before(first));
        if passed_over {
            high = Some(from);
            margin = (margin * 4).min(MOST_MARGIN);
        } else {
            let beyond: Vec<_> = rows.iter().filter(|row| place.is_before(row)).cloned().collect();
            if !beyond.is_empty() || !is_full {
                return Ok((beyond, is_full));
            }
            low = from + rows.len();
        }
        // Many have one score: the place is searched among them.
        let end = match high {
            Some(high) => high,
            None => before_score(redis, key, place.score + 1).await?,
        };
        high = Some(end);
        // Right before `end` it is where a window ended with the last of the score: the next one begins so much before it.
        if low > end {
            (low, high) = (before_score(redis, key, place.score).await?, None);
            at = low;
        } else {
            at = low + (end - low) / 2;
        }
    }
    Ok((Vec::new(), true))
}

/// How many have a lower score.
async fn before_score(redis: &Redis, key: &str, score: u64) -> Result<usize, StoreError> {
    let words = vec![key.into(), "-inf".into(), format!("({score}").into()];
    let answer = redis.call("ZCOUNT", Some(slot_of(key)), words).await;
    match answer.map_err(|err| err.named(CALL))? {
        Value::Integer(count) => {
            usize::try_from(count).map_err(|_| StoreError::Reply { call: CALL })
        }
        _ => Err(StoreError::Reply { call: CALL }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(score: u64, member: &'static [u8]) -> Position {
        Position { score, member: Bytes::from_static(member) }
    }

    #[test]
    fn a_place_is_behind_lower_scores_and_earlier_members_of_the_same() {
        let at = place(5, b"\0\0\0\0\0\0\0\x07");
        let row = |score, member: &'static [u8]| (Bytes::from_static(member), score);
        assert!(!at.is_before(&row(4, b"\0\0\0\0\0\0\0\x09rest")));
        assert!(!at.is_before(&row(5, b"\0\0\0\0\0\0\0\x06rest")));
        assert!(!at.is_before(&row(5, b"\0\0\0\0\0\0\0\x07rest")), "it is the one that was met");
        assert!(at.is_before(&row(5, b"\0\0\0\0\0\0\0\x08")));
        assert!(at.is_before(&row(6, b"")));
        assert!(!at.is_before(&row(5, b"")), "a member of another layout");
    }

    #[test]
    fn a_place_says_when_something_came_and_not_what_it_is() {
        let member = Bytes::from_static(b"SEQUENCEgenerati0123456789abcdef");
        assert_eq!(Position::of(Home::Pending, &member, 1), place(1, b"SEQUENCE"));
        let fenced = [&[b'f'; 32][..], b"|SEQUENCEgeneration"].concat();
        let at = Position::of(Home::Leased, &fenced.into(), 1);
        assert_eq!(at.member, [&[b'f'; 32][..], b"|SEQUENCE"].concat());
        assert_eq!(Position::of(Home::Dead, &Bytes::from_static(b"x"), 1), place(1, b"x"));
    }
}
