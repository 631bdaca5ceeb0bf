//! All that a server holds, as it is read and laid.

use std::io;

use holdfast_model::{
    shard::{Content, Shard},
    value::Value,
};
use holdfast_testkit::Value as Told;

use crate::redis::{Command, Expect as _, command};

/// Reads every key there is, whole.
pub(super) const DUMP: &str = "
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

/// The commands that make a server hold this and nothing else.
pub(super) fn lay(shard: &Shard) -> Vec<Command> {
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

/// What `DUMP` tells. A server that is busy tells something else.
pub(super) fn read(dump: &Value) -> io::Result<Shard> {
    if let Value::Error(text) = dump {
        return Err(io::Error::other(text.clone()));
    }
    let mut shard = Shard::default();
    for entry in dump.items() {
        let [key, kind, ttl, content] = entry.items() else { panic!("four parts") };
        let content = read_one(kind.bytes(), ttl, content.items());
        shard.0.insert(key.bytes().to_vec(), content);
    }
    Ok(shard)
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

/// What the proxy tells, in the walk's words.
pub(super) fn value(told: &Told) -> Value {
    match told {
        Told::Simple(text) => Value::Status(text.clone()),
        Told::Error(text) => Value::Error(text.clone()),
        Told::Int(number) => Value::Number(*number),
        Told::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Told::Array(items) => Value::Array(items.iter().map(value).collect()),
        Told::Nil => Value::Nil,
    }
}
