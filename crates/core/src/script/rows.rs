//! `rows`: a whole hash of which others choose the names; no step of the protocol.
//!
//! The rule for all that is sent on a shared connection: **no answer is a flat array that begins with a string which people
//! or tenants choose.** Whatever it was asked, fred takes an array of three or four that begins with `subscribe`,
//! `psubscribe`, `unsubscribe`, `punsubscribe`, `sunsubscribe`, `message`, `smessage` or `pmessage` for one of a channel,
//! and drops it. Its call then gets the answer of the next one, and so does every call behind it, whoever made it: two queues
//! that are called `subscribe` and `unsubscribe` are enough for `HGETALL hf1:queues`.
//!
//! So a hash with such names is read by this script, which answers in pairs. (Nested in one array it would not do: an inner
//! array of three or four is taken for a message too, and gets a word more.) What else answers with a list begins with what
//! is ours: HMGET with values that our scripts wrote (a version, a number, a fence), ZRANGE and ZRANGEBYSCORE with handles,
//! HGETALL of `lanes` with `n|`, `b|` or `r|`, HRANDFIELD with keys of 16 bytes, the scripts with a word of theirs or an array;
//! HSCAN and ZSCAN answer with a pair.

use bytes::Bytes;
use fred::types::Value;
use futures_util::future::BoxFuture;

use super::{Script, bytes_at};
use crate::{Redis, StoreError};

pub(super) static ROWS: Script<1, 0> = Script::new("rows", include_str!("../../lua/ask/rows.lua"));

/// The rows of a hash: name and value. Boxed: who reads a registry is deep in calls of its own, deeper than the compiler goes.
pub(crate) fn rows<'a>(
    redis: &'a Redis,
    key: &'a str,
) -> BoxFuture<'a, Result<Vec<(Bytes, Bytes)>, StoreError>> {
    let read =
        |name: &[u8], rest: &[Value]| Some((Bytes::copy_from_slice(name), bytes_at(rest, 0)?));
    Box::pin(ROWS.run(redis, [key], [], Vec::new(), read))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use holdfast_testkit::RedisServer;
    use tokio::task::JoinSet;

    use super::*;
    use crate::{
        keys::{QUEUES, ShardKeys, WORKERS},
        redis::Options,
        script::{Length, registered_queues, registered_workers},
    };

    /// Every word that the client takes for one of a channel.
    const OF_CHANNELS: [&str; 8] = [
        "subscribe",
        "psubscribe",
        "unsubscribe",
        "punsubscribe",
        "sunsubscribe",
        "message",
        "smessage",
        "pmessage",
    ];

    #[tokio::test]
    async fn a_queue_named_like_a_message_of_a_channel_takes_nobodys_answer() {
        let server = RedisServer::start().await;
        let mut options = Options::new(server.url());
        options.command_timeout = Duration::from_secs(5);
        let redis = Arc::new(Redis::open(options).unwrap());
        for name in OF_CHANNELS {
            server.command(&["DEL", QUEUES, WORKERS]).await;
            server.command(&["HSET", QUEUES, name, "1 1", "chat", "1 1"]).await;
            // Whatever somebody else wrote there is left out, and drops nothing.
            server.command(&["HSET", WORKERS, name, "12345678x", "-", "12345678"]).await;
            let queues = registered_queues(&redis).await.map(|queues| queues.len());
            assert_eq!(queues.ok(), Some(2), "{name}");
            assert_eq!(registered_workers(&redis).await.ok(), Some(Vec::new()), "{name}");
            each_gets_its_own_answer(&server, &redis, name).await;
        }
    }

    /// Twenty calls at once, each with another answer.
    async fn each_gets_its_own_answer(server: &RedisServer, redis: &Arc<Redis>, name: &str) {
        let shard = ShardKeys::new(&"q".try_into().unwrap(), 0);
        let mut calls = JoinSet::new();
        for at in 0..20_u8 {
            let text = "x".repeat(usize::from(at) + 1);
            let key = crate::model::Key::from([b'a' + at; 16]);
            let field = String::from_utf8(key.bytes().to_vec()).unwrap();
            server.command(&["HSET", &shard.result, &field, &text]).await;
            let (redis, shard) = (Arc::clone(redis), shard.clone());
            calls.spawn(async move {
                let length = Length { shard: &shard, key }.run(&redis).await;
                (at, length.ok())
            });
        }
        while let Some(told) = calls.join_next().await {
            let (at, length) = told.unwrap();
            assert_eq!(length.map(|it| it as u64), Some(u64::from(at) + 1), "{name}: call {at}");
        }
    }

    #[tokio::test]
    async fn a_hash_that_is_empty_or_of_another_type_is_told_as_such() {
        let server = RedisServer::start().await;
        let redis = Redis::open(Options::new(server.url())).unwrap();
        assert_eq!(rows(&redis, "hf1:none").await.unwrap(), Vec::new());
        server.command(&["SET", "hf1:text", "x"]).await;
        assert!(rows(&redis, "hf1:text").await.unwrap_err().is_foreign());
    }
}
