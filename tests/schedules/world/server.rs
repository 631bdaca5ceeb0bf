//! What the server of a play does with what arrives: the model's steps, and what stands beside them.

use std::sync::OnceLock;

use holdfast_core::script::{self, Listing};
use holdfast_model::{
    call::Call,
    invariants::{self, Ledger},
    names,
    reply::{Part, Reply},
    state::{Id, Paper, Word},
    value::Value,
};

use super::{Asked, World};
use crate::{
    mind::At,
    resp::Words,
    told::{Told, changes_nothing_of_others, told},
};

impl World {
    pub(super) fn script(words: &Words) -> Option<&'static str> {
        let word = std::str::from_utf8(words.get(1)?).ok()?;
        scripts().iter().find(|it| it.sha1 == word || it.text == word).map(|it| it.name)
    }

    /// Runs a command, other than one that waits.
    pub(crate) fn run(&mut self, asked: &Asked) -> (Value, Told) {
        let word = |at: usize| asked.words.get(at).map(Vec::as_slice).unwrap_or_default();
        let ok = || Value::Status("OK".to_owned());
        let value = match word(0) {
            b"EVALSHA" | b"EVAL" => return self.run_script(asked),
            b"PING" => Value::Status("PONG".to_owned()),
            b"CLIENT" if word(1) == b"ID" => Value::Number(1),
            b"INFO" => Value::Bytes(INFO.to_vec()),
            b"SCRIPT" => {
                let sha = scripts().iter().find(|it| it.text.as_bytes() == word(2));
                let Some(sha) = sha.map(|it| it.sha1.as_str()) else {
                    return (self.is_strange("loads a script that is none of ours"), Told::Nothing);
                };
                self.loaded.insert(sha);
                Value::Bytes(sha.into())
            }
            b"HMGET" => {
                Value::Array(asked.words[2..].iter().map(|key| self.request(key)).collect())
            }
            b"CLIENT" | b"SELECT" | b"QUIT" => ok(),
            other => {
                let what = other.escape_ascii().to_string();
                self.is_strange(&format!("sends a strange command: {what}"))
            }
        };
        (value, Told::Nothing)
    }

    /// What no role of a play should send.
    fn is_strange(&mut self, what: &str) -> Value {
        self.check("somebody", Err(what.to_owned()));
        Value::Error("ERR not known here".to_owned())
    }

    fn request(&self, key: &[u8]) -> Value {
        let id = Id(key.first().copied().unwrap_or_default());
        match self.state.requests.get(&id) {
            Some(body) => Value::Bytes(names::request(id, *body)),
            None => Value::Nil,
        }
    }

    fn run_script(&mut self, asked: &Asked) -> (Value, Told) {
        let not_run = |asked: &Asked| match &asked.call {
            Some(Call::Claim(claim)) => Told::NoClaim(claim.fence.call),
            _ => Told::Nothing,
        };
        if Self::script(&asked.words).is_none() {
            return (self.is_strange("runs a script that is none of ours"), Told::Nothing);
        }
        let sha = String::from_utf8_lossy(&asked.words[1]);
        if asked.words[0] == b"EVALSHA" && !self.loaded.contains(&*sha) {
            return (Value::Error("NOSCRIPT No matching script.".to_owned()), not_run(asked));
        }
        let Some(call) = &asked.call else {
            let value = match asked.name.as_str() {
                "may" => yes(&asked.words),
                "rows" => self.rows(),
                _ => self.register(&asked.words),
            };
            return (value, Told::Nothing);
        };
        if let Call::Settle(rows) = call
            && let Some(poison) = self.poison
            && rows.iter().any(|row| row.handle.id == poison)
            && rows.iter().all(|row| row.word != Word::Bury)
        {
            let error = Value::Error("ERR this group can't be settled".to_owned());
            return (error, Told::NoSettle(rows.clone()));
        }
        let reply = self.step(call, self.now());
        let told = told(call, &reply);
        let mut value = reply.value();
        self.sessions.rename(&mut value);
        (value, told)
    }

    /// The registry of queues in pairs.
    fn rows(&self) -> Value {
        let pair = |(name, value): (&Vec<u8>, &Vec<u8>)| {
            Value::Array([name, value].map(|bytes| Value::Bytes(bytes.clone())).to_vec())
        };
        Value::Array(self.registered.iter().map(pair).collect())
    }

    fn register(&mut self, words: &Words) -> Value {
        if let [kind, name, value, ..] = args(words)
            && kind == b"queue"
        {
            self.registered.insert(name.clone(), value.clone());
        }
        let ends = args(words).first().is_some_and(|kind| kind == b"ended");
        let word = if ends { b"ended".to_vec() } else { b"registered".to_vec() };
        let now = self.clock(self.now()).to_string().into_bytes();
        Value::Array(vec![Value::Array(vec![Value::Bytes(word), Value::Bytes(now)])])
    }

    /// Runs a call of the model at a moment, and checks what it left behind.
    pub(crate) fn step(&mut self, call: &Call, at: At) -> Reply {
        let before = matches!(call, Call::Settle(_)).then(|| self.state.clone());
        let reply = self.state.step(call, self.clock(at));
        if let (Some(before), Call::Settle(rows)) = (before, call) {
            let checked = changes_nothing_of_others(&before, &self.state, rows, &reply);
            self.check("a settle", checked);
        }
        let checked = self.ledger.follow(&reply, &self.state);
        self.check("Redis:", checked.and_then(|()| invariants::broken(&self.state)));
        for (channel, mut message) in reply.messages(&self.keys) {
            self.sessions.rename_bytes(&mut message);
            if channel == self.keys.cancel.as_bytes() {
                let words = [b"smessage".to_vec(), channel, message].map(Value::Bytes);
                self.subscribers.retain(|it| it.send(Value::Push(words.to_vec())).is_ok());
            }
        }
        if self.state.bell > 0 {
            self.bell.notify_waiters();
        }
        if self.remembers && !matches!(call, Call::Depth | Call::Ring) {
            self.past.push_back((at, self.state.clone()));
            if self.past.len() > 200 {
                self.past.pop_front();
            }
        }
        reply
    }

    /// Redis goes down, forgets what it did in the last `forgets` ms, and is back after `down`.
    pub(crate) fn crash(&mut self, forgets: u64, down: u64) {
        let now = self.now();
        self.tell(|| format!("redis goes down for {down} ms, and forgets {forgets} ms"));
        std::mem::take(&mut self.up).cancel();
        self.down_until = now + down;
        if forgets == 0 {
            return;
        }
        let since = now.saturating_sub(forgets);
        while self.past.back().is_some_and(|(at, _)| *at > since) {
            self.past.pop_back();
        }
        if let Some((_, state)) = self.past.back() {
            self.state = state.clone();
            let mut again = Reply::default();
            for (id, paper) in &self.state.tickets {
                let (Paper::Whole(ticket), false) = (paper, self.state.records.contains_key(id))
                else {
                    continue;
                };
                again.say(vec![Part::Word("accepted"), Part::Ticket(Box::new(ticket.clone()))]);
            }
            self.ledger = Ledger::default();
            let checked = self.ledger.follow(&again, &self.state);
            self.check("Redis:", checked);
        }
    }
}

/// A user of this Redis may do all that it asks about, in rows of four words.
fn yes(words: &Words) -> Value {
    let answer = |_: &[Vec<u8>]| Value::Array(vec![Value::Bytes(b"yes".to_vec())]);
    Value::Array(args(words).chunks(4).map(answer).collect())
}

/// The shipped scripts.
pub(super) fn scripts() -> &'static [Listing] {
    static SCRIPTS: OnceLock<Vec<Listing>> = OnceLock::new();
    SCRIPTS.get_or_init(|| [script::all(), script::questions()].concat())
}

/// What a server says of itself that is as it should be.
const INFO: &[u8] = b"# Server\r\nredis_version:7.2.4\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n\
    aof_enabled:1\r\nused_memory:1000\r\nmaxmemory:0\r\naof_last_write_status:ok\r\nsecond_repl_offset:-1\r\n";

/// ARGV of a script.
pub(super) fn args(words: &Words) -> &[Vec<u8>] {
    let keys = words.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    words.get(3 + keys.unwrap_or(0)..).unwrap_or_default()
}
