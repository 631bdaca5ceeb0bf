//! `read`: where requests are, and how they ended.

use bytes::Bytes;
use fred::types::Value;

use super::{Script, bytes_at, flag, home_at, number, score_at, u64_at};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Home, Key, Ticket},
    redis::{Durable, Reached, slot_of},
};

pub(super) static READ: Script<9, 3, 1> = Script::new("read", include_str!("../../lua/read.lua"));

/// So many bytes of records are enough for one call of the script: what is left is read by another.
const ROOM: usize = 1 << 20;

/// Reads requests of one shard.
pub struct Read<'a> {
    /// The shard they lie in.
    pub shard: &'a ShardKeys,
    /// Which.
    pub keys: &'a [Key],
    /// How many bytes a record may have to come whole. Of a longer one come its first [`RECORD_HEAD`], which tell outcome
    /// and end.
    pub whole: usize,
    /// Whether the call must end with a write of its own, for a durability level.
    pub tick: bool,
}

/// What is kept under one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is; none: its membership was lost.
    pub home: Option<Home>,
    /// The score there, in ms: a deadline, a due time, the end of a lease or of retention.
    pub score: u64,
    /// The server's time, in ms.
    pub now: u64,
    /// Its state.
    pub ticket: Box<Ticket>,
    /// The packed record, or its first bytes; empty while there is none.
    pub record: Bytes,
}

/// How many bytes come of a record that does not come whole.
pub const RECORD_HEAD: usize = 64;

impl Found {
    /// Whether the record is known to have come whole. One that is as long as the part of a longer one may have.
    pub fn is_whole(&self) -> bool {
        self.record.len() != RECORD_HEAD
    }
}

impl Read<'_> {
    /// Runs the script: one reply a key, in their order; none where nothing is kept. Where there are large records it runs
    /// more than once, and each key is told as it was in one of these calls.
    pub async fn run(&self, redis: &Redis) -> Result<Vec<Option<Found>>, StoreError> {
        let mut looked = Looked::at(self.keys);
        loop {
            let (head, rows) = (self.head(self.tick), looked.rows());
            looked.take(READ.run(redis, self.homes(), head, rows, read).await?)?;
            if looked.left.is_empty() {
                return Ok(looked.found);
            }
        }
    }

    /// The same with a write of its own, in any case, and a wait for it: what was found is then as safe as told. However
    /// often it runs, one wait stands behind all of it.
    pub async fn run_at(
        &self,
        durable: &Durable,
    ) -> Result<(Vec<Option<Found>>, Reached), StoreError> {
        let mut stretch = durable.stretch(slot_of(&self.shard.meta));
        let mut looked = Looked::at(self.keys);
        loop {
            let (head, rows) = (self.head(true), looked.rows());
            let ran = READ.run_before_wait(&mut stretch, self.homes(), head, rows, read);
            looked.take(ran.await?)?;
            if looked.left.is_empty() {
                let reached = stretch.wait().await.map_err(|err| err.named("read"))?;
                return Ok((looked.found, reached));
            }
        }
    }

    fn head(&self, tick: bool) -> [Bytes; 3] {
        [number(self.whole), flag(tick), number(ROOM)]
    }

    fn homes(&self) -> [&str; 9] {
        let shard = self.shard;
        [
            &shard.pending,
            &shard.suspects,
            &shard.delayed,
            &shard.leased,
            &shard.finished,
            &shard.dead,
            &shard.ticket,
            &shard.result,
            &shard.meta,
        ]
        .map(String::as_str)
    }
}

/// What was found so far, and what is left to look at.
struct Looked<'a> {
    keys: &'a [Key],
    found: Vec<Option<Found>>,
    /// Places in both.
    left: Vec<usize>,
}

impl<'a> Looked<'a> {
    fn at(keys: &'a [Key]) -> Self {
        Self { keys, found: keys.iter().map(|_| None).collect(), left: (0..keys.len()).collect() }
    }

    fn rows(&self) -> Vec<[Bytes; 1]> {
        self.left.iter().map(|at| [self.keys[*at].bytes()]).collect()
    }

    /// Takes the answers to what was left, in the same order.
    fn take(&mut self, answers: Vec<Answered>) -> Result<(), StoreError> {
        let asked = std::mem::take(&mut self.left);
        for (at, answer) in asked.iter().zip(answers) {
            match answer {
                Answered::Found(found) => self.found[*at] = found.map(|found| *found),
                Answered::Later => self.left.push(*at),
            }
        }
        // Who looks at none of them never comes to an end.
        if !asked.is_empty() && self.left.len() == asked.len() {
            return Err(StoreError::Reply { call: "read" });
        }
        Ok(())
    }
}

/// One answer of the script.
enum Answered {
    /// What is kept, or that nothing is.
    Found(Option<Box<Found>>),
    /// It was not looked at.
    Later,
}

fn read(word: &[u8], rest: &[Value]) -> Option<Answered> {
    match word {
        b"none" => Some(Answered::Found(None)),
        b"later" => Some(Answered::Later),
        b"at" => Some(Answered::Found(Some(Box::new(Found {
            home: home_at(rest, 0)?,
            score: score_at(rest, 1)?,
            now: u64_at(rest, 2)?,
            ticket: Box::new(Ticket::unpack(bytes_at(rest, 3)?).ok()?),
            record: bytes_at(rest, 4)?,
        })))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use holdfast_testkit::RedisServer;

    use super::*;
    use crate::{
        model::{Digest, Draft, Generation, Identity},
        redis::{Level, Options},
    };

    #[test]
    fn what_is_left_for_later_is_asked_again_and_one_that_looks_at_nothing_is_no_answer() {
        let keys = [1, 2, 3].map(|byte| Key::from([byte; 16]));
        let mut looked = Looked::at(&keys);
        let answers = || vec![Answered::Found(None), Answered::Later, Answered::Later];
        looked.take(answers()).unwrap();
        assert_eq!(looked.rows(), [[keys[1].bytes()], [keys[2].bytes()]]);
        let none = looked.take(answers().split_off(1));
        assert!(matches!(none, Err(StoreError::Reply { call: "read" })));
        // A call that only writes asks about nothing.
        assert!(Looked::at(&[]).take(Vec::new()).is_ok());
    }

    /// A wait covers all that its connection wrote before it, and on the disk it may take a second.
    #[tokio::test]
    async fn however_many_calls_a_read_takes_they_are_waited_for_once() {
        let server = RedisServer::recent(|_| {}).await;
        let shard = ShardKeys::new(&"q".try_into().unwrap(), 0);
        let identity = Identity { tenant: "t".try_into().unwrap(), id: "a".try_into().unwrap() };
        let draft = Draft {
            generation: Generation::from([1; 8]),
            digest: Digest([0; 32]),
            deadline: 1,
            not_before: 0,
            body_size: 1,
        };
        let packed = draft.pack(&identity, "t");
        let ticket = Ticket::unpack(packed.clone()).unwrap();
        let keys: [Key; 9] = std::array::from_fn(|at| Key::from([at as u8; 16]));
        let record = vec![b'x'; 1_200_000];
        for key in keys {
            let (of, key, handle) = (&shard, key.bytes(), ticket.handle(key));
            server.command(&[b"HSET", of.ticket.as_bytes(), &key, &packed]).await;
            server.command(&[b"HSET", of.result.as_bytes(), &key, &record]).await;
            server.command(&[b"ZADD", of.finished.as_bytes(), b"9", handle.as_bytes()]).await;
        }
        let redis = Redis::open(Options::new(server.url())).unwrap();
        let durable = Durable::open(&redis, Level::Fsynced).unwrap();
        let read = Read { shard: &shard, keys: &keys, whole: 0, tick: true };
        let (found, reached) = read.run_at(&durable).await.unwrap();
        assert_eq!(found.iter().flatten().filter(|found| !found.record.is_empty()).count(), 9);
        assert!(reached.whole, "{reached:?}");
        let counts = server.command_counts().await;
        let count = |name: &str| counts.get(name).copied().unwrap_or_default();
        assert!(count("evalsha") + count("eval") >= 9, "{counts:?}");
        assert_eq!(count("waitaof"), 1, "{counts:?}");
    }
}
