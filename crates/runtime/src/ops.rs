//! The ops port: `/livez`, `/readyz`, `/metrics`. It answers from memory alone.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use holdfast_core::metrics::{self, PrometheusHandle};
use metrics_process::Collector;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::settings::HttpLimits;
use crate::{BoxError, Health, serve};

/// Probes and scrapes come one at a time; more than that is somebody else.
const LIMITS: HttpLimits = HttpLimits {
    max_connections: 128,
    max_headers: 64,
    max_head: 8 << 10,
    idle_timeout: Duration::from_secs(15),
    body_timeout: Duration::from_secs(5),
};

/// How often what was measured is folded, so that it stays small also where nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// The text form of Prometheus, with its version.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An ops port that is open.
pub(crate) struct Ops {
    listener: TcpListener,
    app: App,
}

#[derive(Clone)]
struct App {
    health: Health,
    metrics: PrometheusHandle,
    process: Collector,
}

/// Opens the port. Says where it listens.
pub(crate) async fn open(
    setting: &'static str,
    address: SocketAddr,
    health: Health,
) -> Result<(SocketAddr, Ops), BoxError> {
    let listener = serve::bind(setting, address).await?;
    let app = App { health, metrics: metrics::install()?, process: Collector::default() };
    app.process.describe();
    Ok((listener.local_addr()?, Ops { listener, app }))
}

impl Ops {
    /// Answers until it is dropped.
    pub(crate) async fn run(self) -> io::Result<()> {
        let router = router(self.app.clone());
        let never = CancellationToken::new();
        let serving = serve::http(self.listener, router, LIMITS, Duration::ZERO, never);
        tokio::select! {
            ended = serving => ended,
            never = upkeep(self.app.metrics) => match never {},
        }
    }
}

async fn upkeep(metrics: PrometheusHandle) -> std::convert::Infallible {
    let mut ticks = interval(UPKEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}

fn router(app: App) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(exposition))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "not-found") })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed")
        })
        .layer(from_fn(with_a_host))
        .with_state(app)
}

/// Turns away what does not say its host as HTTP wants it.
async fn with_a_host(request: Request, next: Next) -> Response {
    if serve::names_its_host(request.version(), request.headers()) {
        next.run(request).await
    } else {
        problem(StatusCode::BAD_REQUEST, "invalid-header")
    }
}

/// The process is there, and its runtime turns. Never depends on Redis: restarting everything
/// because Redis is away helps nobody.
async fn livez() -> Response {
    plain(StatusCode::OK, "text/plain; charset=utf-8", "ok\n".to_owned())
}

/// 200, or 503 with the reasons.
async fn readyz(State(app): State<App>) -> Response {
    let reasons = app.health.reasons();
    let (status, word) = match (reasons.is_empty(), app.health.is_draining()) {
        (true, _) => (StatusCode::OK, "ready"),
        (false, true) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "not-ready"),
    };
    let body = json!({ "status": word, "reasons": reasons });
    (status, fixed_headers(), Json(body)).into_response()
}

/// Everything that is counted, and what the process takes.
async fn exposition(State(app): State<App>) -> Response {
    app.process.collect();
    plain(StatusCode::OK, EXPOSITION, app.metrics.render())
}

fn problem(status: StatusCode, kind: &str) -> Response {
    let body = json!({
        "type": format!("/problems/{kind}"),
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
    });
    plain(status, "application/problem+json", body.to_string())
}

fn plain(status: StatusCode, content_type: &'static str, body: String) -> Response {
    let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))];
    (status, fixed_headers(), content_type, body).into_response()
}

fn fixed_headers() -> [(HeaderName, HeaderValue); 2] {
    [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ]
}

#[cfg(test)]
pub(crate) mod tests;
