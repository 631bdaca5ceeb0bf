//! A producer of the test's own, and a hand that does what a worker would.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Answer as Answered, Fence, Generation, QueueName, Request, Session};
use holdfast_core::redis::Options;
use holdfast_core::script::{
    Claim, ClaimReply, Lease, Redrive, RedriveReply, Register, Requests, Settle, SettleItem,
    SettleKind, SettleReply,
};
use holdfast_producer::Config;
use holdfast_runtime::{Environment, Failure, Services, Settings, Stop};
use holdfast_testkit::http::Answer;
use holdfast_testkit::{Http, RedisServer, eventually};
use serde_json::Value;
use tokio::task::JoinSet;

pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A producer that runs in the test's process, reached over its socket.
pub(crate) struct Producer {
    pub(crate) base: String,
    /// Where operators' calls are.
    pub(crate) operators: String,
    pub(crate) http: Http,
    stop: Stop,
    running: JoinSet<Result<(), Failure>>,
}

impl Producer {
    /// A producer with the queue `q` on this Redis. It may not have reached it yet.
    pub(crate) async fn open(redis: &str, producer: &str, queue: &str) -> Self {
        let text = format!(
            "[redis]\nurl = \"{redis}\"\n[producer]\nlisten = \"127.0.0.1:0\"\noperator_listen = \"127.0.0.1:0\"\n{producer}\n\
             [queues.q]\ntarget = \"http://127.0.0.1:9901\"\n{queue}\n"
        );
        let settings = Settings::load(&text, &Environment::default()).unwrap();
        let config = Config::read(&settings).unwrap();
        let mut services = Services::new();
        let redis = services.open_redis(&config.redis).unwrap();
        let listening = holdfast_producer::spawn(&mut services, redis, config).await.unwrap();
        let (stop, mut running) = (Stop::default(), JoinSet::new());
        let stopped = stop.clone();
        running.spawn(async move { services.run(&stopped).await });
        let [base, operators] =
            [listening.api, listening.operators].map(|it| format!("http://{it}"));
        Self { base, operators, http: Http::new(), stop, running }
    }

    /// The same, once the queue is declared.
    pub(crate) async fn start(redis: &RedisServer, producer: &str, queue: &str) -> Self {
        let it = Self::open(redis.url(), producer, queue).await;
        eventually("the queue is declared", SOON, async || {
            let capacity = redis.command(&["HGET", "hf1:{q/0}:meta", "capacity"]).await;
            capacity.bytes().map(drop).ok_or("no policy")
        })
        .await;
        it
    }

    /// The usual one.
    pub(crate) async fn on(redis: &RedisServer) -> Self {
        Self::start(redis, "", "").await
    }

    pub(crate) async fn submit(&self, body: &str) -> Answer {
        self.submit_with(&[], body).await
    }

    pub(crate) async fn submit_with(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        let url = format!("{}/v1/queues/q/requests", self.base);
        self.http.request("POST", &url, &all, Bytes::copy_from_slice(body.as_bytes())).await
    }

    /// Sends a batch of one of both kinds, and gives its answer.
    pub(crate) async fn batch(&self, kind: &str, body: impl Into<Bytes>) -> Answer {
        let url = format!("{}/v1/queues/q/batch", self.base);
        self.http.request("POST", &url, &[("content-type", kind)], body).await
    }

    /// The outcomes of a batch of lines.
    pub(crate) async fn lines(&self, body: impl Into<Bytes>) -> Vec<Value> {
        outcomes(&self.batch(LINES, body).await)
    }

    /// A call on `/v1/queues/q/requests/{rest}`.
    pub(crate) async fn call(&self, method: &str, rest: &str) -> Answer {
        self.http
            .request(method, &format!("{}/v1/queues/q/requests/{rest}", self.base), &[], "")
            .await
    }

    pub(crate) async fn status(&self, id: &str) -> Value {
        let answer = self.call("GET", id).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        json(&answer)
    }

    /// Asks it to stop, and says how it ended.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        self.stop.drain.cancel();
        self.running.join_next().await.unwrap().unwrap()
    }

    /// Asks it to stop, and goes on.
    pub(crate) fn begin_stop(&self) {
        self.stop.drain.cancel();
    }

    /// How it ended by itself.
    pub(crate) async fn ended(mut self) -> Result<(), Failure> {
        self.running.join_next().await.unwrap().unwrap()
    }
}

/// The type of a batch of lines.
pub(crate) const LINES: &str = "application/x-ndjson";

/// What a batch was told, a value for each item; each says which item it is.
pub(crate) fn outcomes(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.header("content-type")), (207, Some(LINES)), "{answer:?}");
    let told: Vec<Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (index, line) in told.iter().enumerate() {
        assert_eq!(line["index"], index, "in the order of the items: {line}");
    }
    told
}

/// The end of the type of an item's problem, after a look at its form.
pub(crate) fn problem_of(outcome: &Value) -> &str {
    let problem = &outcome["problem"];
    assert_eq!(problem["status"], outcome["status"], "{outcome}");
    for member in ["type", "title", "detail"] {
        assert!(problem[member].is_string(), "{member} in {outcome}");
    }
    let again = outcome["retry_after"].as_u64();
    let is_busy = matches!(outcome["status"].as_u64(), Some(429 | 503));
    assert!(again.map_or(!is_busy, |again| is_busy && (1..=120).contains(&again)), "{outcome}");
    problem["type"].as_str().unwrap().strip_prefix("/problems/").unwrap()
}

pub(crate) fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

/// The end of the type of a problem, after a look at its form.
pub(crate) fn problem(answer: &Answer) -> String {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    let body = json(answer);
    for member in ["type", "title", "status", "detail"] {
        assert!(!body[member].is_null(), "{member} in {body}");
    }
    if answer.status != 200 {
        assert_eq!(body["status"], answer.status, "{body}");
    }
    if matches!(answer.status, 429 | 503) {
        let again: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=120).contains(&again), "{again}");
    }
    body["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
}

/// Does by hand what a worker does, in the first shard of `q`.
pub(crate) struct Hand {
    redis: Redis,
    shard: ShardKeys,
    session: Session,
    call: AtomicU64,
}

impl Hand {
    pub(crate) fn on(redis: &RedisServer) -> Self {
        Self {
            redis: Redis::open(Options::new(redis.url())).unwrap(),
            shard: ShardKeys::new(&QueueName::try_from("q").unwrap(), 0),
            session: Session::random(),
            call: AtomicU64::new(0),
        }
    }

    fn fence(&self) -> Fence {
        Fence::new(self.session, self.call.load(Ordering::Relaxed))
    }

    /// Claims one request.
    pub(crate) async fn claim(&self) -> Lease {
        eventually("something can be claimed", SOON, async || {
            self.call.fetch_add(1, Ordering::Relaxed);
            let claim = Claim {
                shard: &self.shard,
                fence: self.fence(),
                free: 1,
                lease: Duration::from_secs(60),
                budget: 1 << 30,
                may_take_suspect: true,
                trusted_until: u64::MAX,
                along: 0,
            };
            match claim.run(&self.redis).await.map_err(|err| err.to_string())? {
                ClaimReply::Claimed(claimed) => {
                    claimed.leases.into_iter().next().ok_or_else(|| "nothing".to_owned())
                }
                ClaimReply::Stale => Err("stale".to_owned()),
            }
        })
        .await
    }

    /// The body of a claimed request.
    pub(crate) async fn body(&self, lease: &Lease) -> Bytes {
        let keys = [lease.handle.key()];
        let found = Requests { shard: &self.shard, keys: &keys }.run(&self.redis).await.unwrap();
        Request::unpack(found[0].clone().unwrap()).unwrap().body
    }

    /// Settles the request that was claimed last.
    pub(crate) async fn settle(&self, lease: &Lease, kind: SettleKind) -> SettleReply {
        let items = [SettleItem { fence: self.fence(), handle: lease.handle, kind }];
        let settle = Settle { shard: &self.shard, items: &items };
        settle.run(&self.redis).await.unwrap().into_iter().next().unwrap()
    }

    /// Starts a dead request again.
    pub(crate) async fn redrive(&self, lease: &Lease) {
        let items = [(lease.handle, Generation::random())];
        let redrive = Redrive { shard: &self.shard, items: &items, deadline: None };
        let replies = redrive.run(&self.redis).await.unwrap();
        assert!(matches!(replies[..], [RedriveReply::Redriven(_)]), "{replies:?}");
    }

    /// Says of itself what a worker says.
    pub(crate) async fn register(&self, told: &str) {
        Register::Worker(self.session, told).run(&self.redis).await.unwrap();
    }

    /// Claims one request and answers it.
    pub(crate) async fn answer(&self, status: u16, body: &'static [u8]) {
        let lease = self.claim().await;
        self.settle(&lease, ack(status, body)).await;
    }
}

pub(crate) fn ack(status: u16, body: &'static [u8]) -> SettleKind {
    let headers = vec![("content-type".to_owned(), Bytes::from_static(b"text/x-answer"))];
    SettleKind::Ack { status, answer: Answered { headers, body: Bytes::from_static(body) } }
}

#[expect(clippy::disallowed_methods, reason = "a test's own deadlines")]
pub(crate) fn unix_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}
