//! What most cases begin with: a fleet, a raw gateway in it, requests that can be told apart.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_core::Redis;
use holdfast_core::keys::ShardKeys;
use holdfast_core::model::{Fence, Handle, QueueName};
use holdfast_core::redis::Options;
use holdfast_testkit::http::Answer;
use holdfast_testkit::{Process, RedisServer, Value, eventually, free_port};

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::spelled;
use crate::raw_gateway::{self, Asked, RawGateway};

/// Lines under `[worker]`.
pub(crate) fn worker(concurrency: usize, lease: Duration) -> String {
    let (lease, renew) = (spelled(lease), spelled(lease / 3));
    format!("concurrency = {concurrency}\nlease = \"{lease}\"\nrenew = \"{renew}\"\ndrain = \"5s\"")
}

/// Lines under `[reclaimer]`.
pub(crate) fn reclaimer(every: Duration) -> String {
    format!("every = \"{}\"", spelled(every))
}

/// A fleet with a Redis of its own.
pub(crate) async fn fleet(setup: Setup) -> Fleet {
    Fleet::with(setup, RedisServer::start().await).await
}

/// The same, with a raw gateway in place of the stand-in.
pub(crate) async fn raw(
    setup: Setup,
    plan: impl Fn(&Asked<'_>) -> raw_gateway::Answer + Send + Sync + 'static,
) -> (Fleet, RawGateway) {
    let mut fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let gateway = RawGateway::instead_of(&mut fleet.gateway, plan).await;
    fleet.start_producer().await;
    (fleet, gateway)
}

/// The same, with a gateway that gives each named request an answer of its own, each time; the requests are submitted.
pub(crate) async fn answering<const N: usize>(
    setup: Setup,
    answers: [(&str, raw_gateway::Answer); N],
) -> (Fleet, RawGateway, Vec<String>) {
    let ids: Vec<String> = answers.iter().map(|(id, _)| (*id).to_owned()).collect();
    let marked = answers.map(|(id, answer)| (mark(id), answer));
    let plan = move |asked: &Asked<'_>| {
        let own = marked.iter().find(|(mark, _)| asked.has(mark));
        own.map(|(_, answer)| answer.clone()).expect("a request of this case")
    };
    let (fleet, gateway) = raw(setup, plan).await;
    submit_all(&fleet, &ids).await;
    (fleet, gateway, ids)
}

/// A payload that names its request.
pub(crate) fn payload(id: &str) -> String {
    format!("{{\"content\":\"<{id}>\"}}")
}

/// The mark by which a gateway tells a request.
pub(crate) fn mark(id: &str) -> String {
    format!("<{id}>")
}

/// `prefix-1`, `prefix-2` and so on.
pub(crate) fn ids(prefix: &str, count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("{prefix}-{number}")).collect()
}

/// Submits one request for each id, in their order, all with ten minutes of time.
pub(crate) async fn submit_all(fleet: &Fleet, ids: &[String]) {
    for id in ids {
        fleet.submit(id, &payload(id)).await;
    }
}

/// Waits for the outcome of a request of any queue; none: it is not kept.
pub(crate) async fn outcome(fleet: &Fleet, queue: &str, id: &str) -> Option<String> {
    let path = format!("/v1/queues/{queue}/requests/{id}/result?wait=5");
    eventually(&format!("{queue}: {id} ends"), SOON, async || {
        let answer = fleet.http.try_request("GET", &fleet.api(&path), &[], "").await;
        let answer = answer.map_err(|error| error.to_string())?;
        match (answer.status, answer.header("holdfast-outcome")) {
            (200, Some(outcome)) => Ok(Some(outcome.to_owned())),
            (404, _) => Ok(None),
            (status, _) => Err(format!("{status}: {}", answer.text())),
        }
    })
    .await
}

/// Sends a batch of lines to queue `q`, and gives what each item was told.
pub(crate) async fn batch(fleet: &Fleet, lines: &str) -> Vec<serde_json::Value> {
    let answer = fleet.call("POST", "/v1/queues/q/batch", lines.as_bytes()).await;
    assert_eq!(answer.status, 207, "{}", answer.text());
    answer.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Waits for all of them at once, and gives what each gave.
pub(crate) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, done) in running.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Unix time, in seconds.
pub(crate) fn unix() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "deadlines of callers are Unix times")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a clock after 1970").as_secs()
}

/// The protocol's own calls, for what no role would do.
pub(crate) struct ByHand {
    /// The client.
    pub(crate) redis: Redis,
    /// Shard 0 of queue `q`.
    pub(crate) keys: ShardKeys,
}

impl ByHand {
    /// Reaches a fleet's Redis.
    pub(crate) fn on(fleet: &Fleet) -> Self {
        let redis = Redis::open(Options::new(fleet.redis.url())).expect("a client");
        let queue = QueueName::try_from("q").expect("a name");
        Self { redis, keys: ShardKeys::new(&queue, 0) }
    }

    /// Who holds what at the moment.
    pub(crate) async fn leases(&self, fleet: &Fleet) -> Vec<(Fence, Handle)> {
        let answer = fleet.redis.command(&["ZRANGE", &self.keys.leased, "0", "-1"]).await;
        let members = answer.array().expect("members").iter().filter_map(Value::bytes);
        members
            .map(|it| (Fence::try_from(&it[..32]).unwrap(), Handle::try_from(&it[33..]).unwrap()))
            .collect()
    }
}

/// Runs `holdfastctl` on a fleet's Redis, and gives what it prints as JSON.
pub(crate) async fn holdfastctl(fleet: &Fleet, arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--redis", fleet.redis_url(), "--output", "json"]].concat();
    let told = Process::run(env!("CARGO_BIN_EXE_it-holdfastctl"), &arguments, &[]).await;
    assert!(told.status.success(), "{}", told.stderr);
    serde_json::from_str(&told.stdout).expect("JSON")
}

/// A producer beside the fleet's own, whose process and ops port a case can reach.
pub(crate) struct Api {
    /// The process.
    pub(crate) role: Role,
    /// The port of its API.
    pub(crate) port: u16,
}

impl Api {
    /// Starts one, and waits until it is ready.
    pub(crate) async fn start(fleet: &Fleet) -> Self {
        let api = Self::begin(fleet);
        fleet.ready(api.role.ops).await;
        api
    }

    /// Starts one.
    pub(crate) fn begin(fleet: &Fleet) -> Self {
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let environment = [("HOLDFAST_PRODUCER_LISTEN", listen.as_str())];
        let role = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &environment);
        Self { role, port }
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Calls it; an error if there is no whole answer.
    pub(crate) async fn call(
        &self,
        fleet: &Fleet,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Answer, String> {
        let headers: &[(&str, &str)] =
            if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
        fleet.http.try_request(method, &self.url(path), headers, body.to_owned()).await
    }
}

/// The type of a problem, without what all of them begin with.
pub(crate) fn problem_of(answer: &Answer) -> String {
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("a problem");
    let kind = problem["type"].as_str().expect("a type").to_owned();
    kind.strip_prefix("/problems/").expect("a type of ours").to_owned()
}

/// What a probe says: status, body, and how long it took.
pub(crate) async fn probe(fleet: &Fleet, ops: u16, path: &str) -> (u16, String, Duration) {
    let asked = Instant::now();
    let answer =
        fleet.http.request("GET", &format!("http://127.0.0.1:{ops}/{path}"), &[], "").await;
    (answer.status, answer.text().to_owned(), asked.elapsed())
}
