//! One shard on a server of the test's own, and the calls of a request's life in short.

mod calls;
mod dump;
mod item;
mod monitor;
mod raw;
mod tour;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use holdfast_core::{
    Redis,
    keys::ShardKeys,
    model::{Fence, QueueName, Session},
    redis::Options,
    script::{Policy, PolicyReply, QueuePolicy},
};
use holdfast_testkit::{RedisServer, Value, eventually};

pub(crate) use calls::{ack, bury, failure, handles, release, retry};
pub(crate) use dump::{Dump, assert_same};
pub(crate) use item::Item;
pub(crate) use monitor::{Monitor, Seen};
pub(crate) use raw::{Memory, header_keys, run_raw};
pub(crate) use tour::tour;

/// So long that it ends only where a test moves its end.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// A deadline that no test lives to see, in ms.
pub(crate) const FAR: u64 = 4_000_000_000_000;
/// How long a test waits for what must come.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// One shard, its policy written.
pub(crate) struct Shard {
    pub(crate) server: Arc<RedisServer>,
    pub(crate) redis: Redis,
    pub(crate) keys: ShardKeys,
    pub(crate) policy: QueuePolicy,
}

impl Shard {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A shard whose policy differs.
    pub(crate) async fn with(change: impl FnOnce(&mut QueuePolicy)) -> Self {
        // What is on disk is no matter here.
        Self::on(RedisServer::with(|it| it.appendonly = false).await, change).await
    }

    /// The same on a server that was chosen.
    pub(crate) async fn on(server: RedisServer, change: impl FnOnce(&mut QueuePolicy)) -> Self {
        let mut options = Options::new(server.url());
        options.command_timeout = LIMIT;
        let mut policy = QueuePolicy {
            shards: NonZeroU32::MIN,
            max_lapses: 5,
            retention: Duration::from_secs(3600),
            dead_retention: Duration::from_secs(7200),
            capacity: 100_000,
            capacity_bytes: 1 << 30,
            in_flight: None,
        };
        change(&mut policy);
        let keys = ShardKeys::new(&"q".try_into().unwrap(), 0);
        let redis = Redis::open(options).unwrap();
        let shard = Self { server: Arc::new(server), redis, keys, policy };
        shard.declare().await;
        shard
    }

    /// Another shard of the same queue, on the same server.
    pub(crate) async fn beside(&self, number: u32) -> Self {
        self.at(ShardKeys::new(&self.keys.queue, number)).await
    }

    /// The first shard of another queue, on the same server.
    pub(crate) async fn of(&self, queue: &QueueName) -> Self {
        self.at(ShardKeys::new(queue, 0)).await
    }

    async fn at(&self, keys: ShardKeys) -> Self {
        let shard = Self {
            server: Arc::clone(&self.server),
            redis: self.redis.clone(),
            keys,
            policy: self.policy.clone(),
        };
        shard.declare().await;
        shard
    }

    async fn declare(&self) {
        let policy = Policy { shard: &self.keys, policy: &self.policy, write: true };
        let reply = policy.run(&self.redis).await.unwrap();
        assert!(matches!(reply, PolicyReply::Written(1)), "{reply:?}");
    }

    /// Runs a plain command, which must not fail.
    pub(crate) async fn tell(&self, words: &[&dyn AsRef<[u8]>]) -> Value {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_ref()).collect();
        let answer = self.server.command(&words).await;
        assert!(!matches!(answer, Value::Error(_)), "{answer:?}");
        answer
    }

    /// The server's clock, in ms.
    pub(crate) async fn now(&self) -> u64 {
        let time = self.tell(&[&"TIME"]).await;
        let part = |at: usize| time.array().unwrap()[at].int().unwrap() as u64;
        part(0) * 1000 + part(1) / 1000
    }

    /// Waits until the server's clock is past `moment`.
    pub(crate) async fn until(&self, moment: u64) {
        let look = async || {
            let now = self.now().await;
            if now > moment { Ok(()) } else { Err(format!("{} ms to go", moment - now)) }
        };
        eventually("the server's clock gets there", LIMIT, look).await;
    }

    /// A field of `meta` that is a number, if it is there.
    pub(crate) async fn meta(&self, field: &str) -> Option<u64> {
        let value = self.tell(&[&"HGET", &self.keys.meta, &field]).await;
        value.int().map(|number| number as u64)
    }

    /// Writes a field of `meta`.
    pub(crate) async fn set_meta(&self, field: &str, value: u64) {
        self.tell(&[&"HSET", &self.keys.meta, &field, &value.to_string()]).await;
    }

    /// Gives the server no room for anything more.
    pub(crate) async fn fill_memory(&self) {
        self.tell(&[&"CONFIG", &"SET", &"maxmemory", &"1"]).await;
    }
}

/// The fence of a session's call.
pub(crate) fn fence(session: Session, call: u64) -> Fence {
    Fence::new(session, call)
}
