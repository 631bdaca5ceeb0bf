//! What a request costs, counted: calls, Redis commands and bytes of the append-only file, in batches of 64.
//!
//! A figure here is no measurement but a count: it is the same on any machine, and was on Redis 7.0.15 and on Valkey 9.1.2. Both
//! write the commands that a script runs, and not the call, and all that is written has a fixed length: packed records, times of
//! 13 digits, ids of one length. So each must be met exactly, and one more command in a script is seen, whether it runs once a
//! call or once a request. Who makes a script cheaper writes the lower figure down; who makes it dearer says why.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::model::{Answer, Home, Session};
use holdfast_core::script::{
    Claim, Read, Requests, SettleItem, SettleKind, SettleReply, SubmitReply,
};
use holdfast_testkit::{AppendFsync, RedisOptions, RedisServer};

use crate::fixture::{Item, Shard, fence, handles};

/// Requests in one batch.
const BATCH: u64 = 64;

/// What the gateway is taken to answer, and what was asked.
const ANSWER: usize = 200;
const BODY: usize = 1024;

/// What one call of 64 requests spends.
struct Spent {
    /// The commands that it runs, those of its script included.
    commands: BTreeMap<String, u64>,
    /// What they add to the append-only file.
    bytes: u64,
}

/// A server whose file holds all that was written as soon as it is answered, and is never rewritten.
async fn start() -> Shard {
    let written_through = |it: &mut RedisOptions| {
        it.appendfsync = AppendFsync::Always;
        it.args.extend(["--auto-aof-rewrite-percentage", "0"].map(Into::into));
    };
    // What is over is swept as soon as may be.
    let at_once = Duration::from_millis(1);
    Shard::on(RedisServer::with(written_through).await, |it| it.retention = at_once).await
}

/// A batch whose ids and bodies are as long as those of any other.
fn batch(number: u64) -> Vec<Item> {
    let item = |at| {
        let id = format!("batch-{number:02}-request-{at:02}");
        Item::new(id).body(vec![b'a'; BODY]).lane("t")
    };
    (0..BATCH).map(item).collect()
}

impl Spent {
    /// What the server has spent so far.
    async fn by(shard: &Shard) -> Self {
        let info = shard.server.command(&["INFO", "persistence"]).await;
        let size = info.text().and_then(|text| {
            text.lines()
                .find_map(|line| line.strip_prefix("aof_current_size:"))?
                .trim()
                .parse()
                .ok()
        });
        let mut commands = shard.server.command_counts().await;
        // What asks is no part of it, nor is a new connection.
        commands.retain(|name, _| {
            !["info", "hello", "client|setname", "ping"].contains(&name.as_str())
        });
        Self { commands, bytes: size.expect("a server that keeps a file") }
    }

    /// What was spent since.
    async fn since(self, shard: &Shard) -> Self {
        let mut now = Self::by(shard).await;
        for (name, before) in self.commands {
            let count = now.commands.get_mut(&name).expect("counts only grow");
            *count -= before;
        }
        now.commands.retain(|_, count| *count > 0);
        now.bytes -= self.bytes;
        now
    }

    /// Holds it against the commands, each with how often it ran, and against the bytes.
    #[track_caller]
    fn is(&self, call: &str, bytes: u64, commands: &str) {
        let seen: Vec<_> =
            self.commands.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let seen = (seen.join(", "), self.bytes);
        assert_eq!(seen, (commands.to_owned(), bytes), "{call} of {BATCH} requests");
    }
}

/// A batch from its submit to its end, and what each call of it spent.
async fn life(shard: &Shard, number: u64) -> [Spent; 5] {
    let answer = Answer { headers: Vec::new(), body: vec![b'b'; ANSWER].into() };
    let items = batch(number);
    let before = Spent::by(shard).await;
    let replies = shard.submit(&items).await.unwrap();
    let submit = before.since(shard).await;
    assert!(replies.iter().all(|reply| matches!(reply, SubmitReply::Accepted(_))));

    let (fence, free) = (fence(Session::random(), number), BATCH as usize);
    let before = Spent::by(shard).await;
    // All bodies come along, as a worker asks for them.
    let leases = shard.run(Claim { free, along: 1 << 20, ..shard.ask(fence) }).await.leases;
    let claim = before.since(shard).await;
    let handles = handles(&leases);
    assert_eq!(handles.len(), free);
    assert!(leases.iter().all(|lease| lease.request.is_some()));

    let keys: Vec<_> = handles.iter().map(|handle| handle.key()).collect();
    let before = Spent::by(shard).await;
    let bodies = Requests { shard: &shard.keys, keys: &keys }.run(&shard.redis).await.unwrap();
    let read = before.since(shard).await;
    assert!(bodies.iter().all(Option::is_some));

    let kind = SettleKind::Ack { status: 200, answer };
    let end = |&handle| SettleItem { fence, handle, kind: kind.clone() };
    let items: Vec<_> = handles.iter().map(end).collect();
    let before = Spent::by(shard).await;
    let replies = shard.settle_all(&items).await.unwrap();
    let settle = before.since(shard).await;
    assert!(replies.iter().all(|reply| *reply == SettleReply::Done));

    // Until the last of them may go.
    shard.until(shard.now().await + 2).await;
    let before = Spent::by(shard).await;
    assert_eq!(shard.sweep().await.len(), free);
    let sweep = before.since(shard).await;
    [submit, claim, read, settle, sweep]
}

#[tokio::test]
async fn a_batch_costs_the_commands_and_bytes_that_are_written_here() {
    let shard = start().await;
    // The first makes each script known, and each counter as long as it stays.
    for number in 10..12 {
        life(&shard, number).await;
    }
    let [submit, claim, read, settle, sweep] = life(&shard, 12).await;
    submit.is(
        "submit",
        89_683,
        "evalsha 1, hmget 3, hset 4, llen 1, rpush 1, time 1, zadd 1, zcard 4",
    );
    let commands = "del 1, evalsha 1, hget 1, hmget 3, hset 2, time 1, zadd 1, zcard 1, zrange 3, \
        zremrangebyrank 1";
    claim.is("claim", 24_045, commands);
    read.is("a read of bodies", 0, "hmget 1");
    let commands = "evalsha 1, exists 1, hdel 2, hincrby 3, hlen 1, hmget 3, hset 2, hstrlen 64, \
        spublish 1, time 1, zadd 1, zcard 1, zmscore 1, zrem 1";
    settle.is("settle", 44_992, commands);
    let commands = "evalsha 1, hdel 3, hincrby 2, hlen 5, hmget 2, hrandfield 1, hstrlen 64, time 1, \
        zcard 1, zrangebyscore 2, zremrangebyrank 1";
    sweep.is("sweep", 3_281, commands);
}

/// What callers that wait ask, once they are told of the end.
#[tokio::test]
async fn a_look_at_answers_asks_for_all_tickets_at_once_and_for_two_things_of_each_request() {
    let shard = start().await;
    shard.accept_all(&batch(10)).await;
    let fence = fence(Session::random(), 1);
    let handles = handles(&shard.claim(fence, BATCH as usize).await);
    let answer = Answer { headers: Vec::new(), body: vec![b'b'; ANSWER].into() };
    let kind = SettleKind::Ack { status: 200, answer };
    let end = |&handle| SettleItem { fence, handle, kind: kind.clone() };
    shard.settle_all(&handles.iter().map(end).collect::<Vec<_>>()).await.unwrap();

    let keys: Vec<_> = handles.iter().map(|handle| handle.key()).collect();
    let look = Read { shard: &shard.keys, keys: &keys, whole: 1 << 20, tick: false };
    // The first makes the script known.
    look.run(&shard.redis).await.unwrap();
    let before = Spent::by(&shard).await;
    let found = look.run(&shard.redis).await.unwrap();
    let spent = before.since(&shard).await;
    assert!(found.iter().flatten().all(|it| it.home == Some(Home::Finished)));
    spent.is("a look", 0, "evalsha 1, hget 64, hmget 1, time 1, zscore 64");
}
