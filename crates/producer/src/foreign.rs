//! The readers of what callers send, each alone: to be held to the rules of docs/http.md with any bytes, and without a
//! server around them.
//!
//! They are the functions that serve calls, and nothing else. A refusal comes back as the body of its problem.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use holdfast_core::model::{Generation, RequestId};
use holdfast_runtime::settings::Allowed;
use tower::ServiceExt;

use crate::batch::cut::Cutter;
use crate::item::{Frame, Item};
use crate::list::Cursor;
use crate::operate::Params;
use crate::problem::Problem;
use crate::query::{Known, Query};
use crate::{api, body, depth, item, path, prefer, requests};

/// The most levels of arrays and objects that a body may have.
pub const MAX_DEPTH: usize = depth::MAX_DEPTH;

/// The furthest that a deadline may lie ahead.
pub const HORIZON: Duration = item::HORIZON;

/// A refusal, as its caller reads it: JSON.
pub type Refusal = String;

/// Whether a JSON text nests at most `limit` levels.
pub fn nests_within(json: &[u8], limit: usize) -> bool {
    depth::within(json, limit)
}

/// A submit as it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// The caller's name for the request.
    pub id: Option<String>,
    /// In Unix milliseconds.
    pub deadline_ms: u64,
    /// In Unix milliseconds.
    pub not_before_ms: Option<u64>,
    /// Another path at the gateway.
    pub path: Option<String>,
    /// More headers for the gateway, as name in lower case and value.
    pub headers: Vec<(String, String)>,
    /// The caller's own notes, byte for byte.
    pub metadata: Option<Bytes>,
    /// The body of the call, byte for byte.
    pub payload: Bytes,
}

/// Reads the body of a submit at a time in Unix milliseconds, in a queue that allows so much.
pub fn item(
    body: &Bytes,
    now_ms: u64,
    timeout_default: Duration,
    allowed: &Allowed,
) -> Result<Submitted, Refusal> {
    let read = Item::parse(body, Frame { now_ms, timeout_default, allowed });
    let Item { id, deadline_ms, not_before_ms, path, headers, metadata, payload } =
        read.map_err(|err| told(&Problem::from(err)))?;
    Ok(Submitted { id, deadline_ms, not_before_ms, path, headers, metadata, payload })
}

/// An item of a batch: line and column where it begins, and its text; none if that is longer than it may be.
pub type Cut = (usize, usize, Option<Bytes>);

/// Cuts a batch that comes in these parts into its items, of at most `longest` bytes each; then what is wrong with the
/// batch as a whole, if anything is. `is_lines`: by its type it is lines, whatever it begins with.
pub fn batch(
    parts: impl IntoIterator<Item = Bytes>,
    longest: usize,
    is_lines: bool,
) -> (Vec<Cut>, Option<String>) {
    let new = if is_lines { Cutter::lines } else { Cutter::array_or_lines };
    let mut cutter = new(longest);
    let mut cuts = Vec::new();
    for mut part in parts {
        while let Some(next) = cutter.cut(&mut part) {
            match next {
                Ok(cut) => cuts.push((cut.spot.line, cut.spot.column, cut.text)),
                Err(fault) => return (cuts, Some(fault.to_string())),
            }
        }
    }
    match cutter.finish() {
        Some(Ok(cut)) => cuts.push((cut.spot.line, cut.spot.column, cut.text)),
        Some(Err(fault)) => return (cuts, Some(fault.to_string())),
        None => {}
    }
    (cuts, None)
}

/// Reads what an address names, percent-decoded as on every route of a request; none: no such route.
pub async fn address(uri: Uri) -> Option<Result<(String, RequestId), Refusal>> {
    async fn handler(request: Request) -> Response {
        let (mut parts, _) = request.into_parts();
        let names = path::names(&mut parts).await.map_err(|problem| told(&problem));
        let mut response = ().into_response();
        response.extensions_mut().insert(names);
        response
    }
    let routes: Router = Router::new().route(api::REQUEST, any(handler));
    let mut request: Request = Request::default();
    *request.uri_mut() = uri;
    let Ok(mut response) = routes.oneshot(request).await;
    response.extensions_mut().remove()
}

/// Reads `wait` and `generation` of an address.
pub fn query(text: &str) -> Result<(Option<Duration>, Option<Generation>), Refusal> {
    let query = Query::parse(Some(text), Known::GenerationAndWait);
    query.map(|it| (it.wait, it.generation)).map_err(|problem| told(&problem))
}

/// Reads how many rows an operator asks for in an address.
pub fn operators_limit(text: &str) -> Result<usize, Refusal> {
    let limit = Params::parse(Some(text), &["limit"]).and_then(|params| params.limit());
    limit.map_err(|problem| told(&problem))
}

/// Reads a cursor; what it says is told by writing it again.
pub fn cursor(text: &str) -> Option<String> {
    text.parse().ok().map(|cursor: Cursor| cursor.to_string())
}

/// How long `Prefer` asks to wait.
pub fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    prefer::wait(headers)
}

/// The id of a submit, of its body or of `Idempotency-Key`.
pub fn id_of(in_body: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    requests::choose_id(in_body, headers).map_err(|problem| told(&problem))
}

/// The caller's trace, as it is passed on.
pub fn traceparent(headers: &HeaderMap) -> Option<String> {
    requests::traceparent(headers)
}

/// Whether the headers say that the body is one item.
pub fn is_item(headers: &HeaderMap) -> bool {
    body::check_type(headers).is_ok()
}

/// Whether the headers say that the body is many items: then whether these are lines.
pub fn is_batch(headers: &HeaderMap) -> Option<bool> {
    body::check_type_of_many(headers).ok().map(|said| said == body::Said::Lines)
}

fn told(problem: &Problem) -> Refusal {
    // Strings and numbers only: writing them to memory does not fail.
    serde_json::to_string(&problem.told(problem.kind().status())).unwrap_or_default()
}
