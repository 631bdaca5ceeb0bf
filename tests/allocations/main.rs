//! How often memory is asked for on the way of a request: the typed calls of core, from what a producer or a worker has in its
//! hands to the words for Redis, and from the reply back to values.
//!
//! Each call carries 64 requests, so that one allocation more a request shows as 64. The client library's are among them. A
//! program of its own: what counts replaces the allocator of all that it is linked into.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{
    Answer, Digest, Draft, Envelope, Fence, Generation, Handle, Identity, Request, Session,
};
use holdfast_core::redis::Options;
use holdfast_core::script::{
    Claim, ClaimReply, Claimed, Policy, QueuePolicy, Settle, SettleItem, SettleKind, SettleReply,
    Submission, Submit, SubmitReply,
};
use holdfast_testkit::RedisServer;
use tokio::runtime::{Builder, Runtime};

/// Requests in one call.
const BATCH: usize = 64;

/// How often each call is counted: how a reply is cut on its way adds a few allocations to some runs, so the fewest count.
const RUNS: usize = 24;

/// How many allocations each call was counted to make in a debug build: submit, claim, a read of what came along, settle. Claim made
/// 553 to 555, as its answer of 64 bodies comes in more or fewer pieces; the others never another number.
const COUNTED: [u64; 4] = [1075, 553, 193, 563];

/// How many more are let pass, for such pieces and for another compiler. One more for each request is twice that.
const ROOM: u64 = BATCH as u64 / 2;

/// A deadline that no test lives to see, in ms.
const FAR: u64 = 4_000_000_000_000;

/// A shard, and who works on it.
struct Side {
    runtime: Runtime,
    redis: Redis,
    keys: ShardKeys,
    session: Session,
    calls: u64,
    submitted: usize,
    _server: RedisServer,
}

impl Side {
    fn start() -> Self {
        // One thread: what is counted is what this one asks for.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let keys = ShardKeys::new(&"q".try_into().unwrap(), 0);
        let (server, redis) = runtime.block_on(async {
            let server = RedisServer::start().await;
            let redis = Redis::open(Options::new(server.url())).unwrap();
            let policy = QueuePolicy {
                shards: NonZeroU32::MIN,
                max_lapses: 5,
                retention: Duration::from_secs(3600),
                dead_retention: Duration::from_secs(3600),
                capacity: 100_000,
                capacity_bytes: 1 << 30,
                in_flight: None,
            };
            let policy = Policy { shard: &keys, policy: &policy, write: true };
            policy.run(&redis).await.unwrap();
            (server, redis)
        });
        let session = Session::random();
        Self { runtime, redis, keys, session, calls: 0, submitted: 0, _server: server }
    }

    /// What a producer has read, not yet packed.
    fn requests(&mut self) -> Vec<(Draft, Request)> {
        let from = self.submitted;
        self.submitted += BATCH;
        (from..self.submitted).map(request).collect()
    }

    fn submit(&self, requests: &[(Draft, Request)]) -> Vec<SubmitReply> {
        let pack = |(draft, request): &(Draft, Request)| {
            let key = request.identity.place(NonZeroU32::MIN).key;
            Submission::new(key, draft, request).unwrap()
        };
        let items: Vec<_> = requests.iter().map(pack).collect();
        let submit = Submit { shard: &self.keys, items: &items };
        self.runtime.block_on(submit.run(&self.redis)).unwrap()
    }

    fn claim(&self, fence: Fence) -> Claimed {
        let claim = Claim {
            shard: &self.keys,
            fence,
            free: BATCH,
            lease: Duration::from_secs(60),
            budget: 1 << 30,
            may_take_suspect: true,
            trusted_until: FAR,
            along: 1 << 20,
        };
        match self.runtime.block_on(claim.run(&self.redis)).unwrap() {
            ClaimReply::Claimed(claimed) => claimed,
            ClaimReply::Stale => panic!("calls of this session are in order"),
        }
    }

    /// Unpacks what came along, as a worker does before it calls.
    fn read(claimed: &Claimed) -> Vec<Request> {
        let bytes =
            claimed.leases.iter().map(|lease| lease.request.clone().expect("it came along"));
        bytes.map(|bytes| Request::unpack(bytes).unwrap()).collect()
    }

    fn settle(&self, items: &[SettleItem]) -> Vec<SettleReply> {
        let settle = Settle { shard: &self.keys, items };
        self.runtime.block_on(settle.run(&self.redis)).unwrap()
    }

    /// A batch from submit to settle, and how many allocations each call made.
    fn life(&mut self) -> [u64; 4] {
        let requests = self.requests();
        let (submit, replies) = counted(|| self.submit(&requests));
        assert!(replies.iter().all(|reply| matches!(reply, SubmitReply::Accepted(_))));
        self.calls += 1;
        let fence = Fence::new(self.session, self.calls);
        let (claim, claimed) = counted(|| self.claim(fence));
        assert_eq!(claimed.leases.len(), BATCH);
        let (read, bodies) = counted(|| Self::read(&claimed));
        assert_eq!(bodies.len(), BATCH);
        let items: Vec<_> = claimed.leases.iter().map(|lease| ack(fence, lease.handle)).collect();
        let (settle, replies) = counted(|| self.settle(&items));
        assert!(replies.iter().all(|reply| *reply == SettleReply::Done));
        [submit, claim, read, settle]
    }
}

fn request(number: usize) -> (Draft, Request) {
    let identity = Identity {
        tenant: "t".try_into().unwrap(),
        id: format!("request-{number:08}").as_str().try_into().unwrap(),
    };
    let body = Bytes::from(vec![b'a'; 1024]);
    let draft = Draft {
        generation: Generation::random(),
        digest: Digest::of(&identity, &body),
        deadline: FAR,
        not_before: 0,
        body_size: 1024,
    };
    let envelope = Envelope::default();
    (draft, Request { identity, lane: "t".to_owned(), envelope, body })
}

fn ack(fence: Fence, handle: Handle) -> SettleItem {
    let answer = Answer { headers: Vec::new(), body: Bytes::from(vec![b'b'; 200]) };
    SettleItem { fence, handle, kind: SettleKind::Ack { status: 200, answer } }
}

/// What `work` gives, and how many allocations it made on this thread.
fn counted<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let mut made = None;
    let counted = allocation_counter::measure(|| made = Some(work()));
    (counted.count_total, made.expect("it was run"))
}

#[test]
fn a_request_asks_for_memory_as_often_as_is_written_here() {
    let mut side = Side::start();
    // The first makes each script known.
    side.life();
    let mut fewest = [u64::MAX; 4];
    for _ in 0..RUNS {
        let seen = side.life();
        fewest = std::array::from_fn(|at| fewest[at].min(seen[at]));
    }
    let calls = ["submit", "claim", "a read of what came along", "settle"];
    eprintln!("allocations of {calls:?}: {fewest:?}");
    for ((call, fewest), counted) in calls.into_iter().zip(fewest).zip(COUNTED) {
        let each = fewest as f64 / BATCH as f64;
        let said = format!("{call} of {BATCH}: {fewest} allocations, {each:.2} a request");
        assert!(fewest <= counted + ROOM, "{said}; {counted} are written down");
    }
}
