//! `/v1/queues/{queue}/requests`: submit, status, cancel.

mod admit;
mod cancel;
mod head;
mod submit;

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::app::{App, Named};
use crate::openapi::{Answer, Operation, Parameter, Shape};
use crate::path::OfRequest;
use crate::problem::{Kind, Problem};
use crate::query::{Known, Query};
use crate::status::{Seen, Status};

pub(crate) use admit::{Admitted, Origin, Prepared, Received, outcome};
pub(crate) use cancel::{CANCEL, cancel};
pub(crate) use head::{choose_id, refuse_idempotency_key, traceparent};
pub(crate) use submit::{SUBMIT, submit};

/// The entry of [`status`].
pub(crate) const STATUS: Operation = Operation {
    id: "getRequest",
    summary: "Where a request is",
    parameters: &[Parameter::Generation],
    body: &[],
    answers: &[
        Answer::json(200, "Where it is", Shape::Status),
        Answer::json(
            202,
            "Where it is, and that this is not as safe as its queue asks",
            Shape::Status,
        ),
    ],
    refusals: &[Kind::StoreUnreachable, Kind::StoreReadOnly, Kind::StoreDenied, Kind::Overloaded],
};

/// `GET …/requests/{id}`: where it is.
pub(crate) async fn status(
    State(app): State<Arc<App>>,
    OfRequest(named): OfRequest,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), Known::Generation)?;
    let (found, safety) = app.look_to_tell(&named).await?.ok_or_else(unknown_request)?;
    if query.generation.is_some_and(|pinned| pinned != found.ticket.generation) {
        return Err(unknown_request());
    }
    let holder = match found.ticket.fence.and_then(|fence| fence.session()) {
        Some(session) => app.holders.name(&app.store, session).await,
        None => None,
    };
    let seen = Seen::from(found).with_safety(safety);
    let status = Status::of(&named, &seen).held_by(holder);
    Ok((code(StatusCode::OK, &seen), Json(status)).into_response())
}

/// One body for what never was, what is no more, and what is another's.
pub(crate) fn unknown_request() -> Problem {
    Problem::new(Kind::UnknownRequest, "nothing is kept under this id")
}

/// A status as an answer.
pub(crate) fn shown(code: StatusCode, named: &Named, seen: &Seen) -> Response {
    (self::code(code, seen), Json(Status::of(named, seen))).into_response()
}

/// The status of an answer: 202 for what is not as safe as its queue asks.
pub(crate) fn code(code: StatusCode, seen: &Seen) -> StatusCode {
    if seen.is_safe() { code } else { StatusCode::ACCEPTED }
}
