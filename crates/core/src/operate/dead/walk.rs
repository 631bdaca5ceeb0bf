//! Going through the dead letters of a queue, from where somebody stopped: by score and member, so that it matters not
//! who is swept or redriven meanwhile.

use std::{fmt, str::FromStr};

use bytes::Bytes;

use super::{DeadRow, FilterFault, read_all};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Generation, Handle},
    operate::Queue,
    plain,
    script::{Depth, MAX_ITEMS},
};

/// Behind which member to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    shard: u32,
    score: u64,
    /// The last one that was seen with that score.
    member: Vec<u8>,
}

/// A dead letter on the way.
pub(super) struct Letter {
    pub(super) handle: Handle,
    pub(super) row: DeadRow,
    /// Goes on behind it.
    pub(super) cursor: Cursor,
}

/// Some of one shard.
pub(super) struct Batch {
    pub(super) shard: ShardKeys,
    pub(super) letters: Vec<Letter>,
    pub(super) unreadable: usize,
    /// The server's time, in ms.
    pub(super) now: u64,
}

/// A walk over all shards.
pub(super) struct Walk<'a> {
    redis: &'a Redis,
    queue: &'a Queue,
    at: Cursor,
}

impl Cursor {
    pub(super) fn start() -> Self {
        Self { shard: 0, score: 0, member: Vec::new() }
    }

    /// Reads what a page gave; none: from the start.
    pub(super) fn parse(text: Option<&str>, queue: &Queue) -> Result<Self, FilterFault> {
        let fault =
            FilterFault { field: "cursor", rule: "must be one that a page of this queue gave" };
        let cursor =
            text.map_or_else(|| Ok(Self::start()), |text| text.parse().map_err(|()| fault))?;
        if cursor.shard < queue.shards.get() { Ok(cursor) } else { Err(fault) }
    }

    fn is_before(&self, member: &[u8], score: u64) -> bool {
        (self.score, self.member.as_slice()) < (score, member)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.", self.shard, self.score)?;
        self.member.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(());
        let (shard, score, member) = (next()?, next()?, next()?);
        let is_hex = member.bytes().all(|byte| byte.is_ascii_hexdigit());
        if parts.next().is_some() || !is_hex || member.len() % 2 != 0 || member.len() > 256 {
            return Err(());
        }
        let digits = |at: usize| member.get(at..at + 2).ok_or(());
        let byte = |at| u8::from_str_radix(digits(at)?, 16).map_err(|_| ());
        let member: Result<Vec<u8>, ()> = (0..member.len()).step_by(2).map(byte).collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| ());
        let shard = u32::try_from(number(shard)?).map_err(|_| ())?;
        Ok(Self { shard, score: number(score)?, member: member? })
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(redis: &'a Redis, queue: &'a Queue, at: Cursor) -> Self {
        Self { redis, queue, at }
    }

    /// The next ones; none: all shards are through.
    pub(super) async fn next(&mut self) -> Result<Option<Batch>, StoreError> {
        while self.at.shard < self.queue.shards.get() {
            let shard = ShardKeys::new(&self.queue.name, self.at.shard);
            let members = self.members(&shard).await?;
            let Some((last, score)) = members.last() else {
                self.at = Cursor { shard: self.at.shard + 1, ..Cursor::start() };
                continue;
            };
            let at = Cursor { shard: self.at.shard, score: *score, member: last.to_vec() };
            let batch = self.read(shard, &members).await?;
            self.at = at;
            return Ok(Some(batch));
        }
        Ok(None)
    }

    /// Members behind the cursor. Many may share a score: what a worker gave up at once.
    async fn members(&self, shard: &ShardKeys) -> Result<Vec<(Bytes, u64)>, StoreError> {
        let mut skip = 0;
        loop {
            let range = (skip, MAX_ITEMS);
            let page =
                plain::members_from(self.redis, "dead", &shard.dead, self.at.score, range).await?;
            let is_last = page.len() < MAX_ITEMS;
            let rest: Vec<_> = page
                .into_iter()
                .filter(|(member, score)| self.at.is_before(member, *score))
                .collect();
            if is_last || !rest.is_empty() {
                return Ok(rest);
            }
            skip += MAX_ITEMS;
        }
    }

    async fn read(&self, shard: ShardKeys, members: &[(Bytes, u64)]) -> Result<Batch, StoreError> {
        let named = |(member, score): &(Bytes, u64)| {
            Some((Handle::try_from(member.as_ref()).ok()?, *score))
        };
        let named: Vec<_> = members.iter().filter_map(named).collect();
        let handles: Vec<_> = named.iter().map(|(handle, _)| *handle).collect();
        let found = match handles.is_empty() {
            true => Vec::new(),
            false => read_all(self.redis, &shard, &handles).await?,
        };
        let now = match found.iter().flatten().next() {
            Some(found) => found.now,
            None => Depth { shard: &shard }.run(self.redis).await?.now,
        };
        let letter = |((handle, score), found): ((Handle, u64), &Option<crate::script::Found>)| {
            let member = handle.as_bytes().to_vec();
            Letter {
                handle,
                row: DeadRow::of(&shard, handle, score, found.as_ref()),
                cursor: Cursor { shard: shard.shard, score, member },
            }
        };
        let letters = named.iter().copied().zip(&found).map(letter).collect();
        let unreadable = members.len() - named.len();
        Ok(Batch { letters, unreadable, now, shard })
    }
}

/// A letter with a new generation, made once: a repeat of the call names the same.
pub(super) fn renamed(letter: &Letter) -> (Handle, Generation) {
    (letter.handle, Generation::random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_as_it_was_given() {
        let cursor = Cursor { shard: 3, score: 1_790_000_000_000, member: vec![0, 255, 16] };
        assert_eq!(cursor.to_string(), "3.1790000000000.00ff10");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!(Cursor::start().to_string().parse(), Ok(Cursor::start()));
        for text in ["", "1", "1.2", "1.2.0", "1.2.zz", "1.2.00.3", "-1.2.00", "1.x.00", "1.2.é"] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_shares_a_score_goes_on_by_member() {
        let cursor = Cursor { shard: 0, score: 5, member: vec![2] };
        assert!(
            !cursor.is_before(&[2], 5) && !cursor.is_before(&[1], 5) && !cursor.is_before(&[9], 4)
        );
        assert!(cursor.is_before(&[3], 5) && cursor.is_before(&[0], 6));
    }
}
