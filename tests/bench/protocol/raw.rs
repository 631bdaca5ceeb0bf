//! The least that Redis itself can do for a queue, each over a client of a few lines that pipelines: harder opponents than
//! any library over them. None knows ids, leases, deadlines or who owns what.

use holdfast_testkit::{Client, RedisServer, Value};

use super::cycle::{ANSWER, BATCH, Side, body};

/// The words of one command.
pub(super) type Command = Vec<Vec<u8>>;

/// A server, a client, and what was sent so far.
struct Raw {
    server: RedisServer,
    client: Client,
    size: usize,
    sent: usize,
    answer: Vec<u8>,
}

impl Raw {
    fn new(server: RedisServer, port: u16, size: usize) -> Self {
        let client = Client::new(port);
        Self { server, client, size, sent: 0, answer: body(ANSWER, 7) }
    }

    async fn run(&self, commands: &[Command]) -> Vec<Value> {
        let answers = self.client.pipeline(commands).await;
        let error = answers.iter().find(|answer| matches!(answer, Value::Error(_)));
        assert!(error.is_none(), "{error:?}");
        answers
    }

    /// An id and a body.
    fn next(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.sent += 1;
        (format!("request-{:016}", self.sent).into_bytes(), body(self.size, self.sent))
    }

    fn store(&self, ids: &[Vec<u8>]) -> Command {
        let mut command = words(&["HSET", "answers"]);
        command.extend(ids.iter().flat_map(|id| [id.clone(), self.answer.clone()]));
        command
    }

    async fn forget(&self, ids: Vec<Vec<u8>>) {
        let mut command = words(&["HDEL", "answers"]);
        command.extend(ids);
        self.run(&[command]).await;
    }
}

/// A stream with a consumer group: at-least-once, as Redis has it.
pub(super) struct Streams {
    raw: Raw,
    ready: Vec<Vec<Command>>,
}

impl Streams {
    pub(super) async fn new(server: RedisServer, port: u16, size: usize) -> Self {
        let raw = Raw::new(server, port, size);
        raw.run(&[words(&["XGROUP", "CREATE", "jobs", "workers", "$", "MKSTREAM"])]).await;
        Self { raw, ready: Vec::new() }
    }

    pub(super) async fn fill(&mut self, batches: usize) {
        self.prepare(batches).await;
        for batch in std::mem::take(&mut self.ready) {
            self.raw.run(&batch).await;
        }
    }
}

impl Side for Streams {
    fn server(&self) -> &RedisServer {
        &self.raw.server
    }

    async fn prepare(&mut self, turns: usize) {
        let add = |raw: &mut Raw| {
            let (id, body) = raw.next();
            let mut command = words(&["XADD", "jobs", "*", "id"]);
            command.extend([id, b"body".to_vec(), body]);
            command
        };
        let batch = |raw: &mut Raw| (0..BATCH).map(|_| add(raw)).collect();
        self.ready = (0..turns).map(|_| batch(&mut self.raw)).collect();
    }

    async fn turn(&mut self) {
        let raw = &self.raw;
        raw.run(&self.ready.pop().expect("a prepared batch")).await;
        let count = BATCH.to_string();
        let read =
            ["XREADGROUP", "GROUP", "workers", "one", "COUNT", &count, "STREAMS", "jobs", ">"];
        let answer = raw.run(&[words(&read)]).await;
        let places = entries(&answer[0]);
        assert_eq!(places.len(), BATCH, "there is enough");
        let (mut ack, mut del) = (words(&["XACK", "jobs", "workers"]), words(&["XDEL", "jobs"]));
        ack.extend(places.iter().cloned());
        del.extend(places.iter().cloned());
        raw.run(&[raw.store(&places), ack, del]).await;
        raw.forget(places).await;
    }
}

/// A sorted set by deadline whose members are the requests, as some queues keep them: at-most-once.
pub(super) struct Zset {
    raw: Raw,
    ready: Vec<Command>,
}

impl Zset {
    pub(super) fn new(server: RedisServer, port: u16, size: usize) -> Self {
        Self { raw: Raw::new(server, port, size), ready: Vec::new() }
    }

    pub(super) async fn fill(&mut self, batches: usize) {
        self.prepare(batches).await;
        self.raw.run(&std::mem::take(&mut self.ready)).await;
    }
}

impl Side for Zset {
    fn server(&self) -> &RedisServer {
        &self.raw.server
    }

    async fn prepare(&mut self, turns: usize) {
        let batch = |raw: &mut Raw| {
            let mut command = words(&["ZADD", "jobs"]);
            for _ in 0..BATCH {
                let (id, body) = raw.next();
                let score = (1_800_000_000_000 + raw.sent).to_string().into_bytes();
                command.extend([score, [id, body].concat()]);
            }
            command
        };
        self.ready = (0..turns).map(|_| batch(&mut self.raw)).collect();
        // Popped from the end, and yet added in their order.
        self.ready.reverse();
    }

    async fn turn(&mut self) {
        let raw = &self.raw;
        raw.run(&[self.ready.pop().expect("a prepared batch")]).await;
        let popped = raw.run(&[words(&["ZPOPMIN", "jobs", &BATCH.to_string()])]).await;
        let members = popped[0].array().expect("members and scores").iter().step_by(2);
        let id = |member: &Value| member.bytes().expect("a member")[..24].to_vec();
        let ids: Vec<_> = members.map(id).collect();
        assert_eq!(ids.len(), BATCH, "there is enough");
        raw.run(&[raw.store(&ids)]).await;
        raw.forget(ids).await;
    }
}

/// The places of what a group has read.
fn entries(answer: &Value) -> Vec<Vec<u8>> {
    let entries = answer.array().and_then(|streams| streams.first()?.array()?.get(1)?.array());
    let place = |entry: &Value| Some(entry.array()?.first()?.bytes()?.to_vec());
    entries.expect("entries").iter().map(|entry| place(entry).expect("a place")).collect()
}

pub(super) fn words(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}
