//! The API as the tests beside the code have it: put together on a Redis, without a listener.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{Request, StatusCode};
use holdfast_core::model::{RequestId, TenantName};
use holdfast_runtime::{Environment, Services, Settings};
use holdfast_testkit::{RedisServer, eventually};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::api::router;
use crate::app::{App, Named};
use crate::producer::{Around, Assembled, assemble};

/// How long a test waits for what must come.
pub(crate) const SOON: std::time::Duration = std::time::Duration::from_secs(20);

/// One queue `q` of one shard, whose policy Redis knows.
pub(crate) struct Stage {
    pub(crate) app: Arc<App>,
    /// The loops that make its calls.
    pub(crate) loops: JoinSet<()>,
    _services: Services,
}

impl Stage {
    /// On the Redis of this URL, which may be a proxy's; `queue` are more settings of the queue.
    pub(crate) async fn on(url: &str, queue: &str) -> Self {
        let text = format!(
            "[redis]\nurl = \"{url}\"\n[queues.q]\ntarget = \"http://127.0.0.1:9901\"\nshards = 1\n{queue}\n"
        );
        let settings = Settings::load(&text, &Environment::default()).unwrap();
        let config = crate::Config::read(&settings).unwrap();
        let mut services = Services::new();
        let redis = services.open_redis(&config.redis).unwrap();
        let around = Around { stop: services.stop(), ..Around::default() };
        let Assembled { app, loops } = assemble(redis, &config, around).unwrap();
        Self { app, loops, _services: services }
    }

    /// Takes a request in, once Redis is there.
    pub(crate) async fn submit(&self, id: &str) {
        eventually("a request is taken in", SOON, async || {
            let body = format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":1}}");
            let status = self.send("POST", "", body).await;
            if status.is_success() { Ok(()) } else { Err(status) }
        })
        .await;
    }

    /// A call on `/v1/queues/q/requests{rest}`.
    pub(crate) async fn send(&self, method: &str, rest: &str, body: String) -> StatusCode {
        let request = Request::builder()
            .method(method)
            .uri(format!("/v1/queues/q/requests{rest}"))
            .header(HOST, "x")
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .unwrap();
        router(Arc::clone(&self.app)).oneshot(request).await.unwrap().status()
    }

    /// A request of the queue.
    pub(crate) fn named(&self, id: &str) -> Named {
        let queue = self.app.queues.values().next().unwrap();
        let tenant = TenantName::try_from("default").unwrap();
        Named::new(Arc::clone(queue), &tenant, RequestId::try_from(id).unwrap())
    }
}

/// A Redis, and the API on it.
pub(crate) async fn staged() -> (RedisServer, Stage) {
    let redis = RedisServer::start().await;
    let stage = Stage::on(redis.url(), "").await;
    (redis, stage)
}
