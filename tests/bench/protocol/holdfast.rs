//! Our own way: the typed calls over the client that the roles use.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{
    Answer, Digest, Draft, Envelope, Fence, Generation, Handle, Identity, Key, Request, Session,
};
use holdfast_core::redis::Options;
use holdfast_core::script::{
    Claim, ClaimReply, Claimed, Policy, QueuePolicy, Requests, Settle, SettleItem, SettleKind,
    SettleReply, Submission, Submit, SubmitReply, Sweep,
};
use holdfast_testkit::RedisServer;

use super::cycle::{ANSWER, BATCH, Side, body};

/// Below so many bytes bodies come along with the claim: what the worker says.
const ALONG: usize = 16 << 10;

/// A deadline that no bench lives to see, in ms.
const FAR: u64 = 4_000_000_000_000;

/// What one sweep takes at most.
const MOST_SWEPT: usize = 128;

/// How long a lease is, where nothing else is said.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// A shard on a server, and who works on it.
pub(super) struct Holdfast {
    pub(super) server: Arc<RedisServer>,
    pub(super) redis: Redis,
    pub(super) keys: ShardKeys,
    session: Session,
    calls: u64,
    size: usize,
    submitted: usize,
    ready: Vec<Vec<Submission>>,
    answer: Answer,
}

impl Holdfast {
    /// With bodies of `size` bytes; `url` may lead through something that is put between.
    pub(super) async fn new(server: RedisServer, url: &str, size: usize) -> Self {
        let mut options = Options::new(url);
        options.command_timeout = Duration::from_secs(60);
        let redis = Redis::open(options).expect("a client");
        let keys = ShardKeys::new(&"bench".try_into().expect("a name"), 0);
        let policy = QueuePolicy {
            shards: NonZeroU32::MIN,
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
            server: Arc::new(server),
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
    pub(super) fn another(&self) -> Self {
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

    /// Takes in so many batches.
    pub(super) async fn fill(&mut self, batches: usize) {
        for _ in 0..batches {
            let batch = self.batch(BATCH);
            self.submit(&batch).await;
        }
    }

    /// The next requests.
    pub(super) fn batch(&mut self, count: usize) -> Vec<Submission> {
        let from = self.submitted;
        self.submitted += count;
        (from..self.submitted).map(|number| submission(number, self.size)).collect()
    }

    pub(super) async fn submit(&self, items: &[Submission]) {
        let submit = Submit { shard: &self.keys, items };
        let replies = submit.run(&self.redis).await.expect("submits");
        let is_taken = |reply: &SubmitReply| matches!(reply, SubmitReply::Accepted(_));
        assert!(replies.iter().all(is_taken), "all are new");
    }

    /// Leases up to so many, as a worker of one queue does.
    pub(super) async fn claim(&mut self, free: usize, lease: Duration) -> (Fence, Claimed) {
        self.calls += 1;
        let fence = Fence::new(self.session, self.calls);
        let claim = Claim {
            shard: &self.keys,
            fence,
            free,
            lease,
            budget: 64 << 20,
            may_take_suspect: true,
            trusted_until: FAR,
            along: ALONG,
        };
        match claim.run(&self.redis).await.expect("a claim") {
            ClaimReply::Claimed(claimed) => (fence, claimed),
            ClaimReply::Stale => panic!("calls of this session are in order"),
        }
    }

    /// Reads the bodies that did not come along.
    pub(super) async fn read(&self, claimed: &Claimed) {
        let missing = claimed.leases.iter().filter(|lease| lease.request.is_none());
        let keys: Vec<Key> = missing.map(|lease| lease.handle.key()).collect();
        let read = Requests { shard: &self.keys, keys: &keys }.run(&self.redis).await;
        assert!(read.expect("bodies").iter().all(Option::is_some), "each has its body");
    }

    pub(super) async fn ack(&self, fence: Fence, handles: impl Iterator<Item = Handle>) {
        let kind = SettleKind::Ack { status: 200, answer: self.answer.clone() };
        let items: Vec<_> =
            handles.map(|handle| SettleItem { fence, handle, kind: kind.clone() }).collect();
        let settle = Settle { shard: &self.keys, items: &items };
        let replies = settle.run(&self.redis).await.expect("settles");
        assert!(replies.iter().all(|reply| *reply == SettleReply::Done), "each is settled");
    }

    /// Leases up to so many, reads them and settles them; how many there were.
    pub(super) async fn work_some(&mut self, most: usize) -> usize {
        let (fence, claimed) = self.claim(most, LEASE).await;
        self.read(&claimed).await;
        self.ack(fence, claimed.leases.iter().map(|lease| lease.handle)).await;
        claimed.leases.len()
    }

    /// Leases a batch of so many, reads it and settles it.
    pub(super) async fn work(&mut self, count: usize) {
        assert_eq!(self.work_some(count).await, count, "there is enough");
    }

    /// Works and sweeps until nothing is left.
    pub(super) async fn drain(&mut self) {
        while self.work_some(BATCH).await > 0 {}
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
