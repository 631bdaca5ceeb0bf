//! The routes, and what holds for all of them: a request id, a count, a problem for whatever goes wrong.
//!
//! A submit that never reaches its handler, or whose handler fails, is counted here; every other one there.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONNECTION, HOST, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use holdfast_core::metrics;
use holdfast_runtime::serve::{frames_its_body, names_its_host};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::error;

use crate::app::{App, Queue};
use crate::openapi::{Routes, delete, get, post};
use crate::path::InQueue;
use crate::problem::{Kind, Problem};
use crate::who::{Door, guard, of_method};
use crate::{batch, id, list, queues, requests, result};

/// Names one call of HTTP in logs and answers.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The path of a submit.
pub(crate) const SUBMIT: &str = "/v1/queues/{queue}/requests";

/// The path of one request.
pub(crate) const REQUEST: &str = "/v1/queues/{queue}/requests/{id}";

/// The API as it is served.
pub(crate) fn router(app: Arc<App>) -> Router {
    let door = Door { who: app.who.clone(), needs: of_method };
    let routes = Routes::default()
        .at("/v1/queues", [get(queues::list, queues::LIST)])
        .at("/v1/queues/{queue}", [get(queues::show, queues::SHOW)])
        .at(SUBMIT, [get(list::list, list::LIST), post(requests::submit, requests::SUBMIT)])
        .at("/v1/queues/{queue}/batch", [post(batch::batch, batch::BATCH)])
        .at(
            REQUEST,
            [get(requests::status, requests::STATUS), delete(requests::cancel, requests::CANCEL)],
        )
        .at("/v1/queues/{queue}/requests/{id}/result", [get(result::result, result::RESULT)])
        .finish()
        .route_layer(middleware::from_fn_with_state(door, guard))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed);
    observed(routes, app)
}

/// Routes with what holds for all of them.
pub(crate) fn observed(routes: Router<Arc<App>>, app: Arc<App>) -> Router {
    routes
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), observe))
        .with_state(app)
}

/// Marks a refusal that is not its handler's, who thus has not counted it.
#[derive(Clone, Copy)]
struct NotHandled(Kind);

/// A refusal from outside of a handler.
pub(crate) fn not_handled(problem: Problem) -> Response {
    let mark = NotHandled(problem.kind());
    let mut response = problem.into_response();
    response.extensions_mut().insert(mark);
    response
}

pub(crate) async fn not_found() -> Problem {
    Problem::new(Kind::NotFound, "there is no route with this path")
}

pub(crate) async fn method_not_allowed() -> Problem {
    Problem::new(Kind::MethodNotAllowed, "this path has other methods; Allow lists them")
}

/// What it says is not told: it may quote what a caller sent.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    error!("a handler panicked");
    let detail =
        "the service failed; whether something was stored is not known: repeat with the same id";
    not_handled(Problem::new(Kind::Internal, detail))
}

/// Names, counts and times each call; turns all away once the process stops.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("none", MatchedPath::as_str).to_owned();
    let request_id = given_request_id(request.headers());
    let (mut parts, body) = request.into_parts();
    let submitted_to = submitted_to(&mut parts, &app, &route).await;
    let mut response = match refused(&app, &parts) {
        Some(problem) => closing(not_handled(problem)),
        None => next.run(Request::from_parts(parts, body)).await,
    };
    if let (Some(queue), Some(NotHandled(kind))) = (submitted_to, response.extensions().get()) {
        metrics::submitted(queue.name.as_str(), kind.name());
    }
    let headers = response.headers_mut();
    if let Some(request_id) = request_id.or_else(fresh_request_id) {
        headers.insert(REQUEST_ID, request_id);
    }
    // A state is true for a moment, and an answer is its caller's alone.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    metrics::http_request(&route, response.status().as_u16(), started.elapsed());
    response
}

/// Why a call is turned away, whatever it is for.
fn refused(app: &App, request: &Parts) -> Option<Problem> {
    if app.stop.is_cancelled() {
        let detail = "this process is stopping; nothing was stored";
        return Some(Problem::new(Kind::Draining, detail));
    }
    if !names_its_host(request.version, &request.headers) {
        let detail =
            "Host must stand there once, and be a name or an address with or without a port";
        return Some(Problem::new(Kind::InvalidHeader, detail).with("header", HOST.as_str()));
    }
    if !frames_its_body(&request.headers) {
        let detail = "a body here is framed by its length or by chunks, and by nothing else";
        let problem = Problem::new(Kind::InvalidHeader, detail);
        return Some(problem.with("header", TRANSFER_ENCODING.as_str()));
    }
    None
}

/// The last answer on its connection: whoever is turned away at the door has not been read to the end.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The queue of a submit, if it is declared: another name is the caller's, and becomes no label.
async fn submitted_to(parts: &mut Parts, app: &Arc<App>, route: &str) -> Option<Arc<Queue>> {
    if parts.method != Method::POST || route != SUBMIT {
        return None;
    }
    InQueue::from_request_parts(parts, app).await.ok().map(|InQueue(queue)| queue)
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
    use axum::routing::get;
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
