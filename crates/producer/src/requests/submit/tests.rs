//! What became of each submit is counted under its own name.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::http::Request as HttpRequest;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::middleware;
use axum::routing::post;
use bytes::Bytes;
use holdfast_core::metrics::PrometheusHandle;
use holdfast_runtime::keys::{self, Key};
use holdfast_runtime::serve::BodyTimeout;
use holdfast_runtime::{BoxError, Environment, Services, Settings, Stop};
use holdfast_testkit::{RedisServer, eventually};
use hyper::body::{Body as HttpBody, Frame as BodyFrame};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::*;
use crate::api::{SUBMIT, observed, router};
use crate::problem::Kind;
use crate::producer::{Around, Assembled, assemble};
use crate::who::{Door, Who, guard, of_method};

const PAGE: &str = include_str!("../../../../../docs/metrics.md");

/// How long a test waits for what must come.
const SOON: Duration = Duration::from_secs(20);

/// What no submit to a declared queue is refused with.
const OF_OTHERS: [Kind; 10] = [
    Kind::InvalidBatch,
    Kind::InvalidName,
    Kind::NotFound,
    Kind::UnknownQueue,
    Kind::UnknownRequest,
    Kind::MethodNotAllowed,
    Kind::InvalidOperation,
    Kind::NotApplicable,
    Kind::Overtaken,
    Kind::ForeignHost,
];

/// Every label: what a submit may become.
fn labels() -> BTreeSet<&'static str> {
    let refusals = Kind::ALL.iter().filter(|kind| !kind.status().is_success());
    let refusals = refusals.filter(|kind| !OF_OTHERS.contains(kind)).map(|kind| kind.name());
    refusals.chain(["accepted", "replayed"]).collect()
}

/// An API that is called without a socket. No other test has a queue of its name.
struct Api {
    redis: RedisServer,
    app: Arc<App>,
    router: Router,
    counts: PrometheusHandle,
    _loops: JoinSet<()>,
    _services: JoinSet<()>,
}

impl Api {
    async fn start() -> Self {
        let redis = RedisServer::start().await;
        let (Assembled { app, loops }, running) = assembled(&redis, "");
        let counts = metrics::install().unwrap();
        let router = router(Arc::clone(&app));
        Self { redis, app, router, counts, _loops: loops, _services: running }
    }

    /// Sends a body as JSON, and gives the end of the type of the problem; none: it was taken.
    async fn submit(&self, body: &str) -> Option<String> {
        self.send("", &[], Body::from(body.to_owned())).await
    }

    async fn send(&self, query: &str, headers: &[(&str, &str)], body: Body) -> Option<String> {
        told(&self.router, query, headers, body).await
    }

    /// What was counted, by label.
    fn counted(&self) -> BTreeMap<String, u64> {
        let prefix = "holdfast_submits_total{queue=\"counted\",outcome=\"";
        let text = self.counts.render();
        let rows = text.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once("\"} "));
        rows.map(|(label, count)| (label.to_owned(), count.parse().unwrap())).collect()
    }
}

/// The API on this Redis, its queue with further settings, and the services beside it.
fn assembled(redis: &RedisServer, queue: &str) -> (Assembled, JoinSet<()>) {
    let text = format!(
        "[redis]\nurl = \"{}\"\ncommand_timeout = \"200ms\"\n[queues.counted]\n\
         target = \"http://127.0.0.1:9901\"\ncapacity = 2\nbody_limit = \"1KiB\"\n{queue}\n\
         [tenants.default]\nbytes = \"1KiB\"\n",
        redis.url()
    );
    let settings = Settings::load(&text, &Environment::default()).unwrap();
    let config = crate::Config::read(&settings).unwrap();
    let mut services = Services::new();
    let client = services.open_redis(&config.redis).unwrap();
    let around = Around { stop: services.stop(), ..Around::default() };
    let assembled = assemble(client, &config, around).unwrap();
    let mut running = JoinSet::new();
    running.spawn(async move { drop(services.run(&Stop::default()).await) });
    (assembled, running)
}

async fn told(
    router: &Router,
    query: &str,
    headers: &[(&str, &str)],
    body: Body,
) -> Option<String> {
    let uri = format!("{}{query}", SUBMIT.replace("{queue}", "counted"));
    let mut request = HttpRequest::post(uri).header(HOST, "x");
    if headers.iter().all(|(name, _)| *name != "content-type") {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let taken = response.status().is_success();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    if taken {
        return None;
    }
    Some(body["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned())
}

/// A body that took too long.
struct Late;

impl HttpBody for Late {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, BoxError>>> {
        Poll::Ready(Some(Err(BodyTimeout.into())))
    }
}

/// The same with keys, and one that may not submit.
fn keyed(api: &Api) -> (Router, String) {
    let (key, file) = (Key::random(), tempfile::NamedTempFile::new().unwrap());
    let line = format!("tenant=acme scopes=read sha256={}\n", key.hash());
    std::fs::write(file.path(), line).unwrap();
    let who = Who::Keyed(Arc::new(keys::open(file.path()).unwrap()), Arc::default());
    let door = Door { who, needs: of_method };
    let routes = Router::new()
        .route(SUBMIT, post(fails))
        .route_layer(middleware::from_fn_with_state(door, guard));
    (observed(routes, Arc::clone(&api.app)), format!("Bearer {}", key.expose()))
}

async fn fails() -> &'static str {
    panic!("a fault of ours")
}

fn item(id: &str) -> String {
    format!(r#"{{"id":"{id}","timeout":"10m","payload":1}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_of_a_submit_is_counted_under_the_name_of_its_problem() {
    let api = Api::start().await;
    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    let mut note = |label: Option<String>, wanted: &str| {
        let refused = !matches!(wanted, "accepted" | "replayed");
        assert_eq!(label.as_deref(), refused.then_some(wanted));
        *sent.entry(wanted.to_owned()).or_default() += 1;
    };

    note(api.submit(&item("a")).await, "accepted");
    note(api.submit(&item("a")).await, "replayed");
    note(api.submit(r#"{"id":"a","payload":2}"#).await, "id-reused");
    note(api.submit("{}").await, "invalid-item");
    let deep = format!(r#"{{"payload":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    note(api.submit(&deep).await, "too-deep");
    note(api.submit(r#"{"id":"a/b","payload":1}"#).await, "invalid-id");
    note(api.submit(r#"{"timeout":"soon","payload":1}"#).await, "invalid-deadline");
    let past = r#"{"not_before":1000000000,"timeout":"1m","payload":1}"#;
    note(api.submit(past).await, "deadline-passed");
    note(api.send("?x=1", &[], Body::from(item("b"))).await, "invalid-query");
    let key = [("idempotency-key", "a b")];
    note(api.send("", &key, Body::from(item("b"))).await, "invalid-header");
    note(api.send("", &[], Body::new(Late)).await, "request-timeout");
    let long = format!(r#"{{"payload":"{}"}}"#, "x".repeat(1024));
    note(api.submit(&long).await, "body-too-large");
    let text = [("content-type", "text/plain")];
    note(api.send("", &text, Body::from(item("b"))).await, "unsupported-media-type");

    let large = format!(r#"{{"id":"b","payload":"{}"}}"#, "x".repeat(1000));
    note(api.submit(&large).await, "tenant-over-limit");
    let (keyed, key) = keyed(&api);
    note(told(&keyed, "", &[], Body::from(item("b"))).await, "unauthorized");
    let key = [("authorization", key.as_str())];
    note(told(&keyed, "", &key, Body::from(item("b"))).await, "forbidden");

    let (careful, _services) = assembled(&api.redis, "durability = \"replicated\"");
    let careful_router = router(careful.app);
    let refused = told(&careful_router, "", &[], Body::from(item("b"))).await;
    note(refused, "durability-unavailable");
    drop(careful.loops);

    let all = u32::try_from(api.app.memory.available_permits()).unwrap();
    let memory = Arc::clone(&api.app.memory).try_acquire_many_owned(all).unwrap();
    note(api.submit(&item("b")).await, "overloaded");
    drop(memory);

    api.redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    note(api.submit(&item("b")).await, "store-full");
    api.redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    api.redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    note(api.submit(&item("b")).await, "store-read-only");
    api.redis.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    api.redis.command(&["ACL", "SETUSER", "default", "-zadd"]).await;
    note(api.submit(&item("b")).await, "store-denied");
    api.redis.command(&["ACL", "SETUSER", "default", "+zadd"]).await;
    note(api.submit(&item("b")).await, "accepted");
    note(api.submit(&item("c")).await, "queue-full");

    api.redis.pause();
    note(api.submit(&item("d")).await, "outcome-unknown");
    eventually("it is known that redis is away", SOON, async || {
        // Each of these is sent, until it is known.
        match api.submit(&item("d")).await {
            Some(name) if name == "store-unreachable" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    api.redis.resume();

    let failing = observed(Router::new().route(SUBMIT, post(fails)), Arc::clone(&api.app));
    note(told(&failing, "", &[], Body::empty()).await, "internal");
    api.app.stop.cancel();
    note(api.submit(&item("e")).await, "draining");

    let mut counted = api.counted();
    let unknown = counted.insert("outcome-unknown".to_owned(), 1);
    assert!(unknown >= Some(1) && counted.insert("store-unreachable".to_owned(), 1) == Some(1));
    sent.insert("store-unreachable".to_owned(), 1);
    assert_eq!(counted, sent);
    let seen: BTreeSet<&str> = sent.keys().map(String::as_str).collect();
    assert_eq!(seen, labels(), "each label was seen, and no other");
}

#[test]
fn docs_metrics_md_names_what_a_submit_may_become() {
    let row = PAGE.lines().find(|line| line.starts_with("| `holdfast_submits_total` |")).unwrap();
    let meaning = row.trim_matches('|').rsplit('|').next().unwrap();
    let named: BTreeSet<&str> = meaning.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, labels());
}
