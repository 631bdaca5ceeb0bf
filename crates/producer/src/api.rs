//! The routes, and what holds for all of them: a request id, a count, a problem for whatever goes wrong.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use holdfast_core::metrics;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::error;

use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::{id, queues, requests, result};

/// Names one call of HTTP in logs and answers.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The API as it is served.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/queues", get(queues::list))
        .route("/v1/queues/{queue}", get(queues::show))
        .route("/v1/queues/{queue}/requests", post(requests::submit))
        .route("/v1/queues/{queue}/requests/{id}", get(requests::status).delete(requests::cancel))
        .route("/v1/queues/{queue}/requests/{id}/result", get(result::result))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), observe))
        .with_state(app)
}

async fn not_found() -> Problem {
    Problem::new(Kind::NotFound, "there is no route with this path")
}

async fn method_not_allowed() -> Problem {
    Problem::new(Kind::MethodNotAllowed, "this path has other methods; Allow lists them")
}

/// What it says is not told: it may quote what a caller sent.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    error!("a handler panicked");
    let detail =
        "the service failed; whether something was stored is not known: repeat with the same id";
    Problem::new(Kind::Internal, detail).into_response()
}

/// Names, counts and times each call; turns all away once the process stops.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("none", MatchedPath::as_str).to_owned();
    let request_id = given_request_id(request.headers()).map_or_else(fresh_request_id, Some);
    let mut response = if app.stop.is_cancelled() {
        Problem::new(Kind::Draining, "this process is stopping; nothing was stored").into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    if let Some(request_id) = request_id {
        headers.insert(REQUEST_ID, request_id);
    }
    // A state is true for a moment, and an answer is its caller's alone.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    metrics::http_request(&route, response.status().as_u16(), started.elapsed());
    response
}

/// The caller's name for the call, if it is clean: it ends up in headers and logs.
pub(crate) fn given_request_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let given = headers.get(REQUEST_ID)?;
    given.to_str().is_ok_and(id::is_id).then(|| given.clone())
}

fn fresh_request_id() -> Option<HeaderValue> {
    HeaderValue::try_from(id::fresh()).ok()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn fails() -> &'static str {
        panic!("MARKER")
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_that_does_not_say_what_was_in_it() {
        let app = Router::new().route("/", get(fails)).layer(CatchPanicLayer::custom(panicked));
        let response = app.oneshot(Request::new(axum::body::Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let told = std::str::from_utf8(&body).unwrap();
        assert!(told.contains("/problems/internal") && !told.contains("MARKER"), "{told}");
    }
}
