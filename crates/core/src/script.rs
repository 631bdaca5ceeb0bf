//! The typed calls: one function a Lua script, and nothing else speaks EVAL.
//!
//! A script is a value whose type says how many keys, head arguments and columns a row it takes; a test holds that against
//! the script's own header. Answers are words, read into an enum a script.

mod audit;
mod cancel;
mod claim;
mod commands;
mod depth;
mod expire;
mod length;
mod may;
mod overrule;
mod policy;
mod promote;
mod read;
mod reclaim;
mod redrive;
mod register;
mod renew;
mod requests;
mod ring;
mod rows;
mod settle;
mod shared;
mod submit;
mod sweep;
mod waiting;

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fred::{types::Value, util::sha1_hash};

pub use audit::{Audit, Kept, Paper};
pub use cancel::{Cancel, CancelReply};
pub use claim::{AtBell, Claim, ClaimReply, Claimed, Lease};
pub(crate) use commands::{commands, key_names};
pub use depth::{Depth, DepthReply};
pub use expire::Expire;
pub use length::Length;
pub(crate) use may::{May, Words, may};
pub use overrule::{Override, Overrule, OverruleMode, OverruleReply};
pub use policy::{Policy, PolicyReply, QueuePolicy};
pub use promote::{Promote, PromoteReply};
pub use read::{Found, RECORD_HEAD, Read};
pub use reclaim::{Charge, Reclaim, ReclaimReply};
pub use redrive::{Redrive, RedriveReply};
pub use register::{
    Register, RegisterReply, WorkerRegistry, WorkerRow, registered_queues, registered_workers,
};
pub use renew::{Renew, RenewReply};
pub use requests::Requests;
pub use ring::Ring;
pub(crate) use rows::rows;
pub use settle::{Burial, Settle, SettleItem, SettleKind, SettleReply};
use shared::SHARED;
pub use shared::needed;
pub use submit::{FullOf, LaneLimits, LimitOf, Submission, Submit, SubmitReply};
pub use sweep::{Sweep, SweepReply};
pub use waiting::Waiting;

use crate::{
    Redis, StoreError,
    error::first_word,
    keys::ShardKeys,
    metrics,
    model::{Handle, Home, Outcome},
    redis::{Bell, CallError, Stretch, Waited, slot_of},
};

/// The most items one call may carry: with these a script stays near 2 ms of Redis time.
pub const MAX_ITEMS: usize = 256;
/// About how many bytes one call may carry. A larger item travels alone.
pub const MAX_BYTES: usize = 1 << 20;

/// The command that runs a script.
pub(crate) const RUN: &str = "EVALSHA";

/// The same with the whole text, which nobody can have made the server forget.
pub(crate) const RUN_TEXT: &str = "EVAL";

/// Whether the server does not know the script: then nothing ran.
fn is_unknown<T>(answer: &Result<T, CallError>) -> bool {
    matches!(answer, Err(CallError::Redis(error)) if first_word(error) == "NOSCRIPT")
}

/// A Lua script that takes `K` keys, `H` head arguments and rows of `W`.
pub(crate) struct Script<const K: usize, const H: usize, const W: usize = 0> {
    name: &'static str,
    source: &'static str,
    whole: OnceLock<(String, String)>,
}

/// What is known of a script without calling it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its name: of the Lua file, the metric label, the heading in the docs.
    pub name: &'static str,
    /// What EVALSHA wants.
    pub sha1: String,
    /// How many keys it takes.
    pub keys: usize,
    /// How many arguments stand before the rows.
    pub head: usize,
    /// How many arguments make a row; 0: no rows.
    pub row: usize,
    /// The file as it is kept.
    pub source: &'static str,
    /// The text as Redis gets it.
    pub text: String,
}

impl<const K: usize, const H: usize, const W: usize> Script<K, H, W> {
    pub(crate) const fn new(name: &'static str, source: &'static str) -> Self {
        const { assert!(K > 0, "the first key decides the node") };
        Self { name, source, whole: OnceLock::new() }
    }

    /// The text for Redis and its SHA-1: the flag line must stay first, what is shared comes behind it.
    fn whole(&self) -> &(String, String) {
        self.whole.get_or_init(|| {
            let (flags, body) = self.source.split_once('\n').unwrap_or((self.source, ""));
            let next = if cfg!(feature = "next-field") { "-- of a version to come\n" } else { "" };
            let text = format!("{flags}\n{}{next}{body}", needed(body, &SHARED));
            let sha1 = sha1_hash(&text);
            (text, sha1)
        })
    }

    fn listing(&self) -> Listing {
        let (text, sha1) = self.whole().clone();
        Listing { name: self.name, sha1, keys: K, head: H, row: W, source: self.source, text }
    }

    /// Runs the script; `read` turns one answer, its word and the rest, into a reply.
    ///
    /// A lost reply is the caller's to judge: nothing is sent again, but for NOSCRIPT, which says that nothing ran.
    pub(crate) async fn run<R>(
        &self,
        redis: &Redis,
        keys: [&str; K],
        head: [Bytes; H],
        rows: Vec<[Bytes; W]>,
        read: impl Fn(&[u8], &[Value]) -> Option<R>,
    ) -> Result<Vec<R>, StoreError> {
        let asked = rows.len();
        let replies = self.answers(redis, keys, head, rows, read).await?;
        if W == 0 || asked == 0 || replies.len() == asked {
            return Ok(replies);
        }
        Err(StoreError::Reply { call: self.name })
    }

    /// The same, however many answers come.
    async fn answers<R>(
        &self,
        redis: &Redis,
        keys: [&str; K],
        head: [Bytes; H],
        rows: Vec<[Bytes; W]>,
        read: impl Fn(&[u8], &[Value]) -> Option<R>,
    ) -> Result<Vec<R>, StoreError> {
        let started = Instant::now();
        let slot = Some(slot_of(keys[0]));
        let words = self.words(keys, head, rows);
        let answer = self.send(redis, slot, words).await.map_err(|err| err.named(self.name));
        metrics::script_ran(self.name, started.elapsed());
        self.replies(answer?, read)
    }

    /// What EVALSHA takes.
    fn words(&self, keys: [&str; K], head: [Bytes; H], rows: Vec<[Bytes; W]>) -> Vec<Value> {
        let (_, sha1) = self.whole();
        let mut words: Vec<Value> = Vec::with_capacity(2 + K + H + W * rows.len());
        words.extend([sha1.as_str().into(), (K as i64).into()]);
        words.extend(keys.map(Value::from));
        words.extend(head.into_iter().chain(rows.into_iter().flatten()).map(Value::Bytes));
        words
    }

    /// The answers as replies. A word alone stands bare, which costs the server a third of what a word in an array costs; and so
    /// does a number alone, which has no word.
    fn replies<R>(
        &self,
        answer: Value,
        read: impl Fn(&[u8], &[Value]) -> Option<R>,
    ) -> Result<Vec<R>, StoreError> {
        let Value::Array(answers) = answer else {
            return Err(StoreError::Reply { call: self.name });
        };
        let replies: Option<Vec<R>> = answers
            .into_iter()
            .map(|answer| match &answer {
                Value::Array(parts) => {
                    let (word, rest) = parts.split_first()?;
                    read(word.as_bytes()?, rest)
                }
                Value::Integer(_) => read(b"", std::slice::from_ref(&answer)),
                word => read(word.as_bytes()?, &[]),
            })
            .collect();
        replies.ok_or(StoreError::Reply { call: self.name })
    }

    /// Runs a script that writes, on a connection that then waits for what it wrote.
    pub(crate) async fn run_before_wait<R>(
        &self,
        stretch: &mut Stretch<'_>,
        keys: [&str; K],
        head: [Bytes; H],
        rows: Vec<[Bytes; W]>,
        read: impl Fn(&[u8], &[Value]) -> Option<R>,
    ) -> Result<Vec<R>, StoreError> {
        let asked = rows.len();
        let mut words = self.words(keys, head, rows);
        let mut answer = stretch.run(RUN, words.clone()).await;
        if is_unknown(&answer) {
            if let Some(sha1) = words.first_mut() {
                *sha1 = self.whole().0.as_str().into();
            }
            answer = stretch.run(RUN_TEXT, words).await;
        }
        let replies = self.replies(answer.map_err(|err| err.named(self.name))?, read)?;
        if asked > 0 && replies.len() != asked {
            return Err(StoreError::Reply { call: self.name });
        }
        Ok(replies)
    }

    /// Runs the script once the bell of `shard` has rung or `limit` is over. An error of the wait stands first; the script
    /// may have run in spite of it. One that the server does not know is not loaded.
    pub(crate) async fn run_at<R>(
        &self,
        (bell, shard, limit): (&Bell, &ShardKeys, Duration),
        keys: [&str; K],
        head: [Bytes; H],
        read: impl Fn(&[u8], &[Value]) -> Option<R>,
    ) -> (Result<(), StoreError>, Result<Vec<R>, StoreError>) {
        let words = self.words(keys, head, Vec::new());
        let Waited { heard, answer, took } = bell.wait_then(shard, limit, RUN, words).await;
        metrics::script_ran(self.name, took);
        let answer = answer.map_err(|err| StoreError::new(self.name, err));
        (heard, answer.and_then(|answer| self.replies(answer, read)))
    }

    /// Sends the call. A script that the server does not know is loaded, and the call sent again; should somebody make the
    /// server forget it in between, its text travels with the call.
    async fn send(
        &self,
        redis: &Redis,
        slot: Option<u16>,
        mut words: Vec<Value>,
    ) -> Result<Value, CallError> {
        let text = || Value::from(self.whole().0.as_str());
        let first = redis.call(RUN, slot, words.clone()).await;
        if !is_unknown(&first) {
            return first;
        }
        redis.call("SCRIPT", slot, vec!["LOAD".into(), text()]).await?;
        let second = redis.call(RUN, slot, words.clone()).await;
        if !is_unknown(&second) {
            return second;
        }
        if let Some(sha1) = words.first_mut() {
            *sha1 = text();
        }
        redis.call(RUN_TEXT, slot, words).await
    }

    /// Runs a script that gives one answer for all its rows.
    pub(crate) async fn run_all<R>(
        &self,
        redis: &Redis,
        keys: [&str; K],
        head: [Bytes; H],
        rows: Vec<[Bytes; W]>,
        read: impl Fn(&[u8], &[Value]) -> Option<R>,
    ) -> Result<R, StoreError> {
        let replies = self.answers(redis, keys, head, rows, read).await?;
        replies.into_iter().next().ok_or(StoreError::Reply { call: self.name })
    }

    /// Runs a script that gives one answer.
    pub(crate) async fn run_once<R>(
        &self,
        redis: &Redis,
        keys: [&str; K],
        head: [Bytes; H],
        read: impl Fn(&[u8], &[Value]) -> Option<R>,
    ) -> Result<R, StoreError> {
        self.run_all(redis, keys, head, Vec::new(), read).await
    }
}

/// Every script, in the order of the docs.
pub fn all() -> Vec<Listing> {
    vec![
        submit::SUBMIT.listing(),
        claim::CLAIM.listing(),
        renew::RENEW.listing(),
        settle::SETTLE.listing(),
        cancel::CANCEL.listing(),
        redrive::REDRIVE.listing(),
        reclaim::RECLAIM.listing(),
        promote::PROMOTE.listing(),
        expire::EXPIRE.listing(),
        sweep::SWEEP.listing(),
        read::READ.listing(),
        policy::POLICY.listing(),
        overrule::OVERRULE.listing(),
        register::REGISTER.listing(),
        ring::RING.listing(),
        depth::DEPTH.listing(),
        audit::AUDIT.listing(),
    ]
}

/// The scripts beside them, which are no step of the protocol: they only ask.
pub fn questions() -> Vec<Listing> {
    vec![may::MAY.listing(), rows::ROWS.listing()]
}

/// Whether a script, by its SHA-1, is one of these: it runs also where writes are refused.
pub(crate) fn only_asks(sha1: &str) -> bool {
    may::MAY.whole().1 == sha1 || rows::ROWS.whole().1 == sha1
}

/// A number as an argument.
fn number(value: impl ToString) -> Bytes {
    Bytes::from(value.to_string())
}

fn flag(set: bool) -> Bytes {
    Bytes::from_static(if set { b"1" } else { b"0" })
}

fn millis(duration: Duration) -> Bytes {
    number(duration.as_millis())
}

fn bytes_at(parts: &[Value], at: usize) -> Option<Bytes> {
    match parts.get(at)? {
        Value::Bytes(bytes) => Some(bytes.clone()),
        Value::String(text) => Some(text.clone().into_inner()),
        _ => None,
    }
}

fn handle_at(parts: &[Value], at: usize) -> Option<Handle> {
    Handle::try_from(parts.get(at)?.as_bytes()?).ok()
}

/// A number, whether it came as one or as text.
fn u64_at(parts: &[Value], at: usize) -> Option<u64> {
    match parts.get(at)? {
        Value::Integer(number) => u64::try_from(*number).ok(),
        other => std::str::from_utf8(other.as_bytes()?).ok()?.parse().ok(),
    }
}

/// A score, which is a time in ms. What somebody else wrote there may be infinite or huge: it is taken for the first or the
/// last time there is.
fn score_at(parts: &[Value], at: usize) -> Option<u64> {
    u64_at(parts, at).or_else(|| match parts.get(at)? {
        Value::Integer(_) => Some(0),
        // A cast saturates.
        other => Some(std::str::from_utf8(other.as_bytes()?).ok()?.parse::<f64>().ok()? as u64),
    })
}

fn outcome_at(parts: &[Value], at: usize) -> Option<Outcome> {
    Outcome::from_number(u64_at(parts, at)?)
}

/// A home by its word; a ticket that is in none is answered as `None` inside.
fn home_at(parts: &[Value], at: usize) -> Option<Option<Home>> {
    match parts.get(at)?.as_bytes()? {
        b"nowhere" => Some(None),
        word => Home::from_word(word).map(Some),
    }
}

#[cfg(test)]
mod tests;
