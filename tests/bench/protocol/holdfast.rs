//! Our own way: the typed calls over the client that the roles use.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{
    Answer, Digest, Draft, Envelope, Fence, Generation, Handle, Identity, Key, Request, Session,
};
use holdfast_core::redis::{Bell, Options};
use holdfast_core::script::{
    Claim, ClaimReply, Claimed, Policy, QueuePolicy, Requests, Settle, SettleItem, SettleKind,
    SettleReply, Submission, Submit, SubmitReply, Sweep,
};
use holdfast_core::{Redis, StoreError};
use holdfast_testkit::RedisServer;
use tokio::task::{JoinSet, yield_now};

use super::cycle::{ANSWER, BATCH, Side, body};

/// Below so many bytes bodies come along with the claim: what the worker says.
const ALONG: usize = 16 << 10;

/// A deadline that no bench lives to see, in ms.
const FAR: u64 = 4_000_000_000_000;

/// What one sweep takes at most.
const MOST_SWEPT: usize = 128;

/// Batches on their way at once while a backlog is made.
const UNDER_WAY: usize = 4;

/// How long a lease is, where nothing else is said.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A shard on a server, and who works on it.
pub(crate) struct Holdfast {
    pub(crate) server: Arc<RedisServer>,
    pub(crate) redis: Redis,
    pub(crate) keys: ShardKeys,
    session: Session,
    calls: u64,
    size: usize,
    submitted: usize,
    ready: Vec<Vec<Submission>>,
    answer: Answer,
}

impl Holdfast {
    /// With bodies of `size` bytes; `url` may lead through something that is put between.
    pub(crate) async fn new(server: RedisServer, url: &str, size: usize) -> Self {
        let redis = open(url);
        Self::at(Arc::new(server), redis, ("bench", 0, NonZeroU32::MIN), size).await
    }

    /// The shards of a queue, each with its part of it; one connection leads to all, as in a worker.
    pub(crate) async fn split(
        server: RedisServer,
        name: &str,
        shards: u32,
        size: usize,
    ) -> Vec<Self> {
        let redis = open(server.url());
        let (server, count) = (Arc::new(server), NonZeroU32::new(shards).expect("a shard"));
        let mut all = Vec::new();
        for shard in 0..shards {
            let place = (name, shard, count);
            all.push(Self::at(Arc::clone(&server), redis.clone(), place, size).await);
        }
        all
    }

    async fn at(
        server: Arc<RedisServer>,
        redis: Redis,
        (name, shard, shards): (&str, u32, NonZeroU32),
        size: usize,
    ) -> Self {
        let keys = ShardKeys::new(&name.try_into().expect("a name"), shard);
        let policy = QueuePolicy {
            shards,
            max_lapses: 5,
            // What is over is swept at once, so that each turn carries its share of that.
            retention: Duration::from_millis(1),
            dead_retention: Duration::from_secs(3600),
            capacity: 100_000_000,
            capacity_bytes: 1 << 40,
            in_flight: None,
        };
        Policy { shard: &keys, policy: &policy, write: true }.run(&redis).await.expect("a policy");
        let answer = Answer { headers: Vec::new(), body: Bytes::from(body(ANSWER, 7)) };
        Self {
            server,
            redis,
            keys,
            session: Session::random(),
            calls: 0,
            size,
            submitted: 0,
            ready: Vec::new(),
            answer,
        }
    }

    /// Another worker on the same shard, with a connection of its own.
    pub(crate) fn another(&self) -> Self {
        Self {
            server: Arc::clone(&self.server),
            redis: self.redis.another().expect("a client"),
            keys: self.keys.clone(),
            session: Session::random(),
            calls: 0,
            size: self.size,
            submitted: 0,
            ready: Vec::new(),
            answer: self.answer.clone(),
        }
    }

    /// The same with answers of so many bytes.
    pub(crate) fn with_answer(mut self, size: usize) -> Self {
        self.answer.body = Bytes::from(body(size, 7));
        self
    }

    /// Takes in so many requests, some batches on their way at once: for large backlogs.
    pub(crate) async fn pile_up(&mut self, count: usize) {
        let (mut left, mut under_way) = (count, JoinSet::new());
        while left > 0 || !under_way.is_empty() {
            if left > 0 && under_way.len() < UNDER_WAY {
                let (keys, redis) = (self.keys.clone(), self.redis.clone());
                let items = self.batch(left.min(BATCH));
                left -= items.len();
                under_way.spawn(async move { submit(&redis, &keys, &items).await });
                // What was made is sent before the next is made.
                yield_now().await;
            } else if let Some(done) = under_way.join_next().await {
                done.expect("a batch is taken");
            }
        }
    }

    /// Takes in so many batches.
    pub(crate) async fn fill(&mut self, batches: usize) {
        for _ in 0..batches {
            let batch = self.batch(BATCH);
            self.submit(&batch).await;
        }
    }

    /// The next requests.
    pub(crate) fn batch(&mut self, count: usize) -> Vec<Submission> {
        let from = self.submitted;
        self.submitted += count;
        (from..self.submitted).map(|number| submission(number, self.size)).collect()
    }

    pub(crate) async fn submit(&self, items: &[Submission]) {
        submit(&self.redis, &self.keys, items).await;
    }

    /// Leases up to so many, as a worker of one queue does.
    pub(crate) async fn claim(&mut self, free: usize, lease: Duration) -> (Fence, Claimed) {
        let fence = self.next_fence();
        (fence, claimed(self.ask(fence, free, lease).run(&self.redis).await))
    }

    /// Leases one once the bell has rung or the wait is over, as an idle worker of one queue does.
    pub(crate) async fn claim_at(&mut self, bell: &Bell, limit: Duration) -> (Fence, Claimed) {
        let fence = self.next_fence();
        (fence, claimed(self.ask(fence, 1, LEASE).run_at(bell, limit).await.reply))
    }

    fn next_fence(&mut self) -> Fence {
        self.calls += 1;
        Fence::new(self.session, self.calls)
    }

    fn ask(&self, fence: Fence, free: usize, lease: Duration) -> Claim<'_> {
        Claim {
            shard: &self.keys,
            fence,
            free,
            lease,
            budget: 64 << 20,
            may_take_suspect: true,
            trusted_until: FAR,
            along: ALONG,
        }
    }

    /// Reads the bodies that did not come along.
    pub(crate) async fn read(&self, claimed: &Claimed) {
        let missing = claimed.leases.iter().filter(|lease| lease.request.is_none());
        let keys: Vec<Key> = missing.map(|lease| lease.handle.key()).collect();
        let read = Requests { shard: &self.keys, keys: &keys }.run(&self.redis).await;
        assert!(read.expect("bodies").iter().all(Option::is_some), "each has its body");
    }

    pub(crate) async fn ack(&self, fence: Fence, handles: impl Iterator<Item = Handle>) {
        self.ack_all(&handles.map(|handle| (fence, handle)).collect::<Vec<_>>()).await;
    }

    /// Settles leases of several claims in one call.
    pub(crate) async fn ack_all(&self, held: &[(Fence, Handle)]) {
        let kind = SettleKind::Ack { status: 200, answer: self.answer.clone() };
        let item =
            |&(fence, handle): &(Fence, Handle)| SettleItem { fence, handle, kind: kind.clone() };
        let items: Vec<_> = held.iter().map(item).collect();
        let settle = Settle { shard: &self.keys, items: &items };
        let replies = settle.run(&self.redis).await.expect("settles");
        assert!(replies.iter().all(|reply| *reply == SettleReply::Done), "each is settled");
    }

    /// Leases up to so many, reads them and settles them; how many there were.
    pub(crate) async fn work_some(&mut self, most: usize) -> usize {
        let (fence, claimed) = self.claim(most, LEASE).await;
        self.read(&claimed).await;
        self.ack(fence, claimed.leases.iter().map(|lease| lease.handle)).await;
        claimed.leases.len()
    }

    /// Leases a batch of so many, reads it and settles it.
    pub(crate) async fn work(&mut self, count: usize) {
        assert_eq!(self.work_some(count).await, count, "there is enough");
    }

    /// Works and sweeps until nothing is left.
    pub(crate) async fn drain(&mut self) {
        while self.work_some(BATCH).await > 0 {}
        self.sweep_all().await;
    }

    /// How many wait.
    pub(crate) async fn pending(&self) -> i64 {
        self.size(&self.keys.pending).await
    }

    /// How many are leased.
    pub(crate) async fn leased(&self) -> i64 {
        self.size(&self.keys.leased).await
    }

    async fn size(&self, key: &str) -> i64 {
        self.server.command(&["ZCARD", key]).await.int().expect("the size of a set")
    }

    /// Forgets what is over, all of it.
    pub(crate) async fn sweep_all(&self) {
        while self.sweep(MOST_SWEPT).await > 0 {}
    }

    /// Forgets what is over, up to so many; how many there were.
    pub(super) async fn sweep(&self, limit: usize) -> usize {
        let sweep = Sweep { shard: &self.keys, limit };
        sweep.run(&self.redis).await.expect("a sweep").len()
    }
}

impl Side for Holdfast {
    fn server(&self) -> &RedisServer {
        &self.server
    }

    async fn prepare(&mut self, turns: usize) {
        self.ready = (0..turns).map(|_| self.batch(BATCH)).collect();
    }

    async fn turn(&mut self) {
        let batch = self.ready.pop().expect("a prepared batch");
        self.submit(&batch).await;
        self.work(BATCH).await;
        self.sweep(BATCH).await;
    }
}

fn claimed(reply: Result<ClaimReply, StoreError>) -> Claimed {
    match reply.expect("a claim") {
        ClaimReply::Claimed(claimed) => claimed,
        ClaimReply::Stale => panic!("calls of this session are in order"),
    }
}

async fn submit(redis: &Redis, keys: &ShardKeys, items: &[Submission]) {
    let replies = Submit { shard: keys, items }.run(redis).await.expect("submits");
    let is_taken = |reply: &SubmitReply| matches!(reply, SubmitReply::Accepted(_));
    assert!(replies.iter().all(is_taken), "all are new");
}

fn open(url: &str) -> Redis {
    let mut options = Options::new(url);
    options.command_timeout = Duration::from_secs(60);
    Redis::open(options).expect("a client")
}

/// One request, as a producer packs it.
pub(crate) fn submission(number: usize, size: usize) -> Submission {
    let identity = Identity {
        tenant: "bench".try_into().expect("a tenant"),
        id: format!("request-{number}").as_str().try_into().expect("an id"),
    };
    let body = Bytes::from(body(size, number));
    let draft = Draft {
        generation: Generation::random(),
        digest: Digest::of(&identity, &body),
        deadline: FAR,
        not_before: 0,
        body_size: body.len() as u32,
    };
    let key = identity.place(NonZeroU32::MIN).key;
    let request = Request { identity, lane: String::new(), envelope: Envelope::default(), body };
    Submission::new(key, &draft, &request).expect("a request")
}
