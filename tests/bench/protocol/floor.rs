//! What lies under a whole request: the same commands with the same bytes, from a client that knows all of it before.
//!
//! Sent plainly they show what Redis itself takes for what is kept of a request. From scripts that decide nothing and get
//! everything ready made they show what Lua in this server takes at least for these bytes. Neither checks an owner, an id, a
//! deadline or a limit, so neither is a queue; ours can come close to them, and not below.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Fence, Generation, Handle, Key};
use holdfast_testkit::{Client, RedisServer, Value};

use super::cycle::{BATCH, Cost, Costs, Side, cost};
use super::holdfast::{Holdfast, LEASE, submission};
use super::raw::{Command, words};
use crate::report::{Row, median};
use crate::server::{self, Spent};

/// The number of the request whose bytes are taken: as long as most that are measured.
const NUMBER: usize = 100_000;

/// The end of a lease and of a retention, in ms: as long as real ones, and over.
const OVER: &str = "1800000000000";

/// What follows the commands in a script, call by call: an answer as long as ours.
const ANSWERS: [&str; CALLS] = [
    "local answer = {} for at = 1, 64 do answer[at] = ARGV[2 * at - 1] end return answer",
    "return {r1, r2}",
    "local answer = {} for at = 1, 64 do answer[at] = 'ok' end return answer",
    "return r1",
];

/// Submit, claim, settle, sweep. A body is read without a script anyway.
const CALLS: usize = 4;

/// What one request of ours has in Redis, as it was read there after each call of its life.
struct Written {
    keys: ShardKeys,
    deadline: Vec<u8>,
    request: Vec<u8>,
    /// As submitted, claimed, settled.
    tickets: [Vec<u8>; 3],
    record: Vec<u8>,
    fence: Fence,
}

impl Written {
    /// Has a request go its way on a server of its own.
    async fn by_us(size: usize) -> Arc<Self> {
        let server = server::start(|_| {}).await;
        let url = server.url().to_owned();
        let mut side = Holdfast::new(server, &url, size).await;
        let item = submission(NUMBER, size);
        let (key, keys) = (item.key(), side.keys.clone());
        let server = Arc::clone(&side.server);
        let read = async |hash: &str| {
            let words = [b"HGET".as_slice(), hash.as_bytes(), key.as_bytes()];
            server.command(&words).await.bytes().expect("it is there").to_vec()
        };
        side.submit(&[item]).await;
        let head = server.command(&["ZRANGE", &keys.pending, "0", "0", "WITHSCORES"]).await;
        let deadline =
            head.array().and_then(|pair| pair.get(1)?.bytes()).expect("a score").to_vec();
        let (request, new) = (read(&keys.request).await, read(&keys.ticket).await);
        let (fence, claimed) = side.claim(1, LEASE).await;
        let leased = read(&keys.ticket).await;
        side.ack(fence, claimed.leases.iter().map(|lease| lease.handle)).await;
        let (ended, record) = (read(&keys.ticket).await, read(&keys.result).await);
        Arc::new(Self { keys, deadline, request, tickets: [new, leased, ended], record, fence })
    }

    fn submit(&self, handles: &[Handle]) -> Vec<Command> {
        let keys = &self.keys;
        vec![
            rows("HSET", &keys.request, handles, |it| [key(it), self.request.clone()]),
            rows("HSET", &keys.ticket, handles, |it| [key(it), self.tickets[0].clone()]),
            rows("ZADD", &keys.pending, handles, |it| [self.deadline.clone(), whole(it)]),
            words(&["HSET", &keys.meta, "seq", "100000", "bytes", "100000000"]),
        ]
    }

    fn claim(&self, handles: &[Handle]) -> Vec<Command> {
        let keys = &self.keys;
        let last = (BATCH - 1).to_string();
        let mut session = words(&["HSET", &keys.sessions]);
        session.push(self.fence.as_bytes()[..16].to_vec());
        // Its call number, the time, and what it holds.
        session.push(
            [[b'0'; 24].as_slice(), &handles.iter().flat_map(whole).collect::<Vec<_>>()].concat(),
        );
        vec![
            words(&["ZRANGE", &keys.pending, "0", &last, "WITHSCORES"]),
            rows("HMGET", &keys.ticket, handles, |it| [key(it)]),
            words(&["ZREMRANGEBYRANK", &keys.pending, "0", &last]),
            rows("HSET", &keys.ticket, handles, |it| [key(it), self.tickets[1].clone()]),
            rows("ZADD", &keys.leased, handles, |it| [OVER.into(), self.member(it)]),
            session,
        ]
    }

    fn read(&self, handles: &[Handle]) -> Vec<Command> {
        vec![rows("HMGET", &self.keys.request, handles, |it| [key(it)])]
    }

    fn settle(&self, handles: &[Handle]) -> Vec<Command> {
        let keys = &self.keys;
        vec![
            rows("HMGET", &keys.ticket, handles, |it| [key(it)]),
            rows("HSET", &keys.result, handles, |it| [key(it), self.record.clone()]),
            rows("HSET", &keys.ticket, handles, |it| [key(it), self.tickets[2].clone()]),
            rows("ZADD", &keys.finished, handles, |it| [OVER.into(), whole(it)]),
            rows("ZREM", &keys.leased, handles, |it| [self.member(it)]),
            rows("HDEL", &keys.request, handles, |it| [key(it)]),
            words(&["HINCRBY", &keys.meta, "bytes", "-1"]),
        ]
    }

    fn sweep(&self, handles: &[Handle]) -> Vec<Command> {
        let (keys, limit, last) = (&self.keys, BATCH.to_string(), (BATCH - 1).to_string());
        vec![
            words(&["ZRANGEBYSCORE", &keys.finished, "-inf", OVER, "LIMIT", "0", &limit]),
            rows("HDEL", &keys.result, handles, |it| [key(it)]),
            rows("HDEL", &keys.ticket, handles, |it| [key(it)]),
            words(&["ZREMRANGEBYRANK", &keys.finished, "0", &last]),
            words(&["HINCRBY", &keys.meta, "bytes", "-1"]),
        ]
    }

    /// As it stands in `leased`.
    fn member(&self, handle: &Handle) -> Vec<u8> {
        [self.fence.as_bytes().as_slice(), b"|", handle.as_bytes()].concat()
    }
}

/// One command for many.
fn rows<const N: usize>(
    name: &str,
    to: &str,
    handles: &[Handle],
    row: impl Fn(&Handle) -> [Vec<u8>; N],
) -> Command {
    let mut command = words(&[name, to]);
    command.extend(handles.iter().flat_map(row));
    command
}

fn key(handle: &Handle) -> Vec<u8> {
    handle.key().as_bytes().to_vec()
}

fn whole(handle: &Handle) -> Vec<u8> {
    handle.as_bytes().to_vec()
}

/// A script that runs these commands, in which only the keys and the arguments are left open.
fn script(commands: &[Command], answer: &str) -> String {
    let (mut text, mut from) = (String::new(), 1);
    for (nth, command) in (1..).zip(commands) {
        let (name, to) = (String::from_utf8_lossy(&command[0]), from + command.len() - 3);
        writeln!(
            text,
            "local r{nth} = redis.call('{name}', KEYS[{nth}], unpack(ARGV, {from}, {to}))"
        )
        .expect("text");
        from = to + 1;
    }
    text + answer
}

/// Who sends the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Client,
    Scripts,
}

/// A server, and what is to be sent to it.
pub(super) struct Floor {
    server: RedisServer,
    client: Client,
    written: Arc<Written>,
    /// Their SHA-1; none: the client sends all by itself.
    scripts: Option<[String; CALLS]>,
    sent: u64,
    waiting: VecDeque<Handle>,
    submits: VecDeque<Vec<Command>>,
    /// Claim, body read and settle; and sweep.
    works: VecDeque<[Vec<Command>; 3]>,
    sweeps: VecDeque<Vec<Command>>,
}

impl Floor {
    /// One of each kind.
    pub(super) async fn both(size: usize) -> [Self; 2] {
        let written = Written::by_us(size).await;
        [Self::new(&written, By::Client).await, Self::new(&written, By::Scripts).await]
    }

    async fn new(written: &Arc<Written>, by: By) -> Self {
        let server = server::start(|_| {}).await;
        let client = Client::new(server.port());
        let scripts = match by {
            By::Client => None,
            By::Scripts => Some(loaded(&client, written).await),
        };
        Self {
            server,
            client,
            written: Arc::clone(written),
            scripts,
            sent: 0,
            waiting: VecDeque::new(),
            submits: VecDeque::new(),
            works: VecDeque::new(),
            sweeps: VecDeque::new(),
        }
    }

    /// Takes in so many batches.
    pub(super) async fn fill(&mut self, batches: usize) {
        for _ in 0..batches {
            let handles = self.batch();
            let call = self.call(0, self.written.submit(&handles));
            self.waiting.extend(handles);
            self.send(&call).await;
        }
    }

    /// The next requests.
    fn batch(&mut self) -> Vec<Handle> {
        let from = self.sent;
        self.sent += BATCH as u64;
        let name = |number| {
            Handle::new(number, Generation::random(), Key::from(rand::random::<[u8; 16]>()))
        };
        (from..self.sent).map(name).collect()
    }

    /// As it is sent.
    fn call(&self, nth: usize, commands: Vec<Command>) -> Vec<Command> {
        let Some(scripts) = &self.scripts else { return commands };
        let mut call = words(&["EVALSHA", &scripts[nth], &commands.len().to_string()]);
        call.extend(commands.iter().map(|command| command[1].clone()));
        call.extend(commands.into_iter().flat_map(|command| command.into_iter().skip(2)));
        vec![call]
    }

    async fn send(&self, call: &[Command]) -> Vec<Value> {
        let answers = self.client.pipeline(call).await;
        let error = answers.iter().find(|answer| matches!(answer, Value::Error(_)));
        assert!(error.is_none(), "{error:?}");
        answers
    }

    async fn submit(&mut self) {
        let call = self.submits.pop_front().expect("a prepared batch");
        self.send(&call).await;
    }

    /// Claims a batch, reads and settles it.
    async fn work(&mut self) {
        let [claim, read, settle] = self.works.pop_front().expect("a prepared batch");
        let claimed = self.send(&claim).await;
        let found = if self.scripts.is_some() { claimed[0].array() } else { Some(&claimed[..]) };
        let found = found.and_then(|answers| answers.first()?.array()).map(<[Value]>::len);
        assert_eq!(found, Some(2 * BATCH), "there is enough");
        self.send(&read).await;
        self.send(&settle).await;
    }

    async fn sweep(&mut self) {
        let call = self.sweeps.pop_front().expect("a prepared batch");
        self.send(&call).await;
    }

    /// What submitting so many batches takes, and then claiming, reading and settling them; and sweeping, if that is to count.
    pub(super) async fn phases(&mut self, batches: usize, sweeps: bool) -> [Cost; 2] {
        self.prepare(batches).await;
        let (before, began) = (Spent::by(&self.server).await, Instant::now());
        for _ in 0..batches {
            self.submit().await;
        }
        let added = cost(&self.server, before, began.elapsed(), batches * BATCH).await;
        let (before, began) = (Spent::by(&self.server).await, Instant::now());
        for _ in 0..batches {
            self.work().await;
            if sweeps {
                self.sweep().await;
            }
        }
        let worked = cost(&self.server, before, began.elapsed(), batches * BATCH).await;
        while !self.sweeps.is_empty() {
            self.sweep().await;
        }
        [added, worked]
    }
}

impl Side for Floor {
    fn server(&self) -> &RedisServer {
        &self.server
    }

    async fn prepare(&mut self, turns: usize) {
        for _ in 0..turns {
            let new = self.batch();
            self.submits.push_back(self.call(0, self.written.submit(&new)));
            self.waiting.extend(new);
            let old: Vec<Handle> = self.waiting.drain(..BATCH).collect();
            let written = &self.written;
            self.works.push_back([
                self.call(1, written.claim(&old)),
                written.read(&old),
                self.call(2, written.settle(&old)),
            ]);
            self.sweeps.push_back(self.call(3, written.sweep(&old)));
        }
    }

    async fn turn(&mut self) {
        self.submit().await;
        self.work().await;
        self.sweep().await;
    }
}

/// The scripts of all calls, known to the server.
async fn loaded(client: &Client, written: &Written) -> [String; CALLS] {
    let any = [Handle::new(0, Generation::random(), Key::from([0; 16])); BATCH];
    let calls =
        [written.submit(&any), written.claim(&any), written.settle(&any), written.sweep(&any)];
    let mut loaded: [String; CALLS] = Default::default();
    for (at, (call, answer)) in calls.iter().zip(ANSWERS).enumerate() {
        let answer = client.command(&["SCRIPT", "LOAD", &script(call, answer)]).await;
        loaded[at] = answer.text().expect("a SHA-1").to_owned();
    }
    loaded
}

/// What was measured of both, round by round.
#[derive(Debug, Default)]
pub(super) struct Floors {
    pub(super) plain: Costs,
    pub(super) bare: Costs,
}

impl Floors {
    /// A round of both; none: they were not measured.
    pub(super) fn push(&mut self, round: &[Cost]) {
        for (all, cost) in [&mut self.plain, &mut self.bare].into_iter().zip(round) {
            all.push(*cost);
        }
    }

    /// Puts both under a row: what `ratio` makes of what `of` reads, which is told in `unit`.
    pub(super) fn under(
        &self,
        row: Row,
        unit: &str,
        of: fn(&Costs) -> &[f64],
        ratio: impl Fn(&[f64]) -> Vec<f64>,
    ) -> Row {
        let (plain, bare) = (of(&self.plain), of(&self.bare));
        let named = |name: &str, samples: &[f64]| format!("{:.1} {unit}: {name}", median(samples));
        row.floor(
            median(&ratio(plain)),
            named(
                "the same commands with the same bytes, sent plainly, and nothing decided",
                plain,
            ),
        )
        .floor(
            median(&ratio(bare)),
            named("the same from scripts that get all ready made: what Lua takes at least", bare),
        )
        .samples("floor, plain commands", plain.to_vec())
        .samples("floor, bare scripts", bare.to_vec())
    }
}
