//! The real scripts on a real server, one call at a time, with all that they leave behind.

use std::{collections::BTreeMap, time::Instant};

use holdfast_core::{keys::ShardKeys, model::QueueName};

use holdfast_model::{
    call::Call,
    shard::{Content, Shard},
    state::Ms,
    value::Value,
};

use crate::{
    redis::{Command, Expect as _, Link, command},
    scripts::{self, SCRIPTS, Texts},
};

/// Reads every key there is, whole.
const DUMP: &str = "
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind, content = redis.call('TYPE', key).ok, {}
  if kind == 'zset' then
    content = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'hash' then
    content = redis.call('HGETALL', key)
  elseif kind == 'list' then
    content = redis.call('LRANGE', key, 0, -1)
  end
  all[#all + 1] = {key, kind, redis.call('PTTL', key), content}
end
return all";

/// What one call led to.
pub(crate) struct Outcome {
    /// The server's clock just before and just after.
    pub(crate) between: (Ms, Ms),
    pub(crate) reply: Value,
    pub(crate) shard: Shard,
    pub(crate) messages: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A script that can be called: its SHA-1, and its KEYS.
struct Loaded {
    sha: Vec<u8>,
    keys: Vec<Vec<u8>>,
}

pub(crate) struct Server {
    link: Link,
    pub(crate) keys: ShardKeys,
    loaded: BTreeMap<&'static str, Loaded>,
    dump: Vec<u8>,
    /// The server's clock at the last call, and when that was by ours.
    seen: (Ms, Instant),
}

impl Server {
    /// Connects to a server that is there for this test alone.
    pub(crate) fn connect(address: &str) -> Self {
        let queue = QueueName::try_from("q").expect("a name");
        let keys = ShardKeys::new(&queue, 0);
        let mut link = Link::open(address);
        for channel in [&keys.ended, &keys.cancel] {
            link.subscribe(channel.as_bytes());
        }
        let dump = load(&mut link, DUMP);
        let now = clock(&link.one(command([b"TIME"])));
        Self { link, keys, loaded: BTreeMap::new(), dump, seen: (now, Instant::now()) }
    }

    /// From now on, these texts run.
    pub(crate) fn load(&mut self, texts: &Texts) {
        SCRIPTS.iter().for_each(|name| self.load_one(texts, name));
    }

    /// From now on, this text of one script runs.
    pub(crate) fn load_one(&mut self, texts: &Texts, name: &'static str) {
        let sha = load(&mut self.link, &texts.script(name));
        // All keys of a shard begin alike.
        let prefix = self.keys.pending.trim_end_matches("pending");
        let keys = scripts::keys(texts.file(name)).into_iter();
        let keys = keys.map(|key| format!("{prefix}{key}").into_bytes()).collect();
        self.loaded.insert(name, Loaded { sha, keys });
    }

    /// The server's clock, as far as it is known without asking.
    pub(crate) fn now(&self) -> Ms {
        self.seen.0 + self.seen.1.elapsed().as_millis() as Ms
    }

    /// Runs one call; `before` is laid on the server first, in the place of what is there.
    pub(crate) fn run(&mut self, call: &Call, before: Option<&Shard>) -> Outcome {
        let mut flight = before.map(lay).unwrap_or_default();
        let skipped = flight.len();
        let Loaded { sha, keys } = &self.loaded[call.script()];
        let keys = match call.registry() {
            Some(registry) => vec![registry.into()],
            None => keys.clone(),
        };
        let head = [b"EVALSHA".to_vec(), sha.clone(), keys.len().to_string().into_bytes()];
        flight.push(command([b"TIME"]));
        flight.push(head.into_iter().chain(keys).chain(call.args()).collect());
        flight.push(command([b"TIME"]));
        flight.push(command([b"EVALSHA", &self.dump, b"0"]));
        let answers = self.link.flight(&flight);
        let [from, reply, till, dump] = &answers[skipped..] else { panic!("four answers") };
        let between = (clock(from), clock(till));
        self.seen = (between.1, Instant::now());
        Outcome { between, reply: reply.clone(), shard: read(dump), messages: self.link.messages() }
    }
}

fn load(link: &mut Link, text: &str) -> Vec<u8> {
    match link.one(command([b"SCRIPT", b"LOAD", text.as_bytes()])) {
        Value::Bytes(sha) => sha,
        other => panic!("not loaded: {}\n{text}", other.show()),
    }
}

fn clock(time: &Value) -> Ms {
    match time.items() {
        [seconds, micros] => seconds.digits() * 1000 + micros.digits() / 1000,
        other => panic!("{other:?}: no time"),
    }
}

/// The commands that make a server hold this and nothing else.
fn lay(shard: &Shard) -> Vec<Command> {
    let mut commands = vec![command([b"FLUSHALL"])];
    for (key, content) in &shard.0 {
        let (name, words): (&[u8], Vec<Vec<u8>>) = match content {
            Content::Sorted(members) => {
                let pair = |(member, score): (&Vec<u8>, &String)| {
                    [score.clone().into_bytes(), member.clone()]
                };
                (b"ZADD", members.iter().flat_map(pair).collect())
            }
            Content::Hash(fields) => (
                b"HSET",
                fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect(),
            ),
            Content::List(items) => (b"RPUSH", items.clone()),
            Content::Strange(what) => panic!("{what}: never laid"),
        };
        commands.push([name.to_vec(), key.clone()].into_iter().chain(words).collect());
    }
    commands
}

fn read(dump: &Value) -> Shard {
    let mut shard = Shard::default();
    for entry in dump.items() {
        let [key, kind, ttl, content] = entry.items() else { panic!("four parts") };
        let content = read_one(kind.bytes(), ttl, content.items());
        shard.0.insert(key.bytes().to_vec(), content);
    }
    shard
}

fn read_one(kind: &[u8], ttl: &Value, items: &[Value]) -> Content {
    let pairs = || items.chunks(2).map(|pair| (pair[0].bytes().to_vec(), pair[1].bytes().to_vec()));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match kind {
        _ if *ttl != Value::Number(-1) => Content::Strange(format!("it expires: {ttl:?}")),
        b"zset" => Content::Sorted(pairs().map(|(member, score)| (member, text(score))).collect()),
        b"hash" => Content::Hash(pairs().collect()),
        b"list" => Content::List(items.iter().map(|item| item.bytes().to_vec()).collect()),
        other => Content::Strange(text(other.to_vec())),
    }
}
