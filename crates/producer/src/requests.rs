//! `/v1/queues/{queue}/requests`: submit, status, cancel.

mod cancel;
mod head;
mod submit;

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};

use crate::app::{App, Named};
use crate::path::OfRequest;
use crate::problem::{Kind, Problem};
use crate::query::{Known, Query};
use crate::status::{Seen, Status};

pub(crate) use cancel::cancel;
pub(crate) use submit::submit;

/// `GET …/requests/{id}`: where it is.
pub(crate) async fn status(
    State(app): State<Arc<App>>,
    OfRequest(named): OfRequest,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), Known::Generation)?;
    let found = app.look(&named).await?.ok_or_else(unknown_request)?;
    if query.generation.is_some_and(|pinned| pinned != found.ticket.generation) {
        return Err(unknown_request());
    }
    Ok(shown(StatusCode::OK, &named, &Seen::from(found)))
}

/// One body for what never was, what is no more, and what is another's.
pub(crate) fn unknown_request() -> Problem {
    Problem::new(Kind::UnknownRequest, "nothing is kept under this id")
}

/// A status as an answer.
pub(crate) fn shown(code: StatusCode, named: &Named, seen: &Seen) -> Response {
    let at = location(named);
    (code, [(LOCATION, at)], Json(Status::of(named, seen))).into_response()
}

/// The path of a request: neither name needs an escape.
fn location(named: &Named) -> String {
    format!("/v1/queues/{}/requests/{}", named.queue.name, named.identity.id)
}
