//! `DELETE …/requests/{id}`: ends what waits, and has the worker of what runs told.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use holdfast_core::Chain;
use holdfast_core::metrics;
use holdfast_core::model::{Generation, Handle, Home, Outcome};
use holdfast_core::script::{Cancel, CancelReply, Found};
use tracing::warn;

use super::{shown, unknown_request};
use crate::app::{App, Named};
use crate::openapi::{Answer, Operation, Parameter, Shape};
use crate::path::OfRequest;
use crate::problem::{Kind, Problem};
use crate::query::{Known, Query};
use crate::status::Seen;
use crate::store::patiently;

/// How often an id is read anew because another generation took its place meanwhile.
const TRIES: usize = 2;

/// The entry of [`cancel`].
pub(crate) const CANCEL: Operation = Operation {
    id: "cancelRequest",
    summary: "Cancel a request",
    parameters: &[Parameter::Generation],
    body: &[],
    answers: &[
        Answer::json(200, "It is ended, now or before", Shape::Status),
        Answer::json(
            202,
            "Its worker is being told; or it is ended, and that is not as safe as its queue asks",
            Shape::Status,
        ),
    ],
    refusals: &[
        Kind::StoreFull,
        Kind::StoreUnreachable,
        Kind::StoreReadOnly,
        Kind::StoreDenied,
        Kind::OutcomeUnknown,
        Kind::DurabilityUnavailable,
        Kind::Overloaded,
    ],
};

/// `DELETE …/requests/{id}`: 200 if it is ended, 202 while its worker is being told.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    OfRequest(named): OfRequest,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let pinned = Query::parse(query.as_deref(), Known::Generation)?.generation;
    let tries = if pinned.is_some() { 1 } else { TRIES };
    for _ in 0..tries {
        let found = found(&app, &named, pinned).await?;
        if found.home.is_some_and(Home::is_end) {
            return ended(&app, &named, found).await;
        }
        app.check_level(&named).await?;
        match send(&app, &named, found.ticket.handle(named.key)).await? {
            CancelReply::Gone => {}
            CancelReply::Cancelled => {
                metrics::ended(named.queue.name.as_str(), Outcome::Cancelled.word());
                return Ok(after(&app, &named, found, Outcome::Cancelled).await);
            }
            CancelReply::Ended(outcome) => return Ok(after(&app, &named, found, outcome).await),
            CancelReply::Asked => return Ok(asked(&named, found)),
        }
    }
    Err(unknown_request())
}

/// What is kept, if it is the generation that is meant.
async fn found(app: &App, named: &Named, pinned: Option<Generation>) -> Result<Found, Problem> {
    let found = app.look(named).await?.ok_or_else(unknown_request)?;
    if pinned.is_some_and(|pinned| pinned != found.ticket.generation) {
        return Err(unknown_request());
    }
    Ok(found)
}

/// Names the generation, so that a copy that runs late harms no other.
async fn send(app: &App, named: &Named, handle: Handle) -> Result<CancelReply, Problem> {
    let handles = [handle];
    let cancel = Cancel { shard: &named.shard().keys, handles: &handles };
    let call = || cancel.run(&app.store.redis);
    match patiently(app.store.patience, call).await {
        Ok(answered) => answered.answer.into_iter().next().ok_or_else(unknown_request),
        Err(lost) => {
            let queue = &named.queue.name;
            match &lost.error {
                Some(error) => warn!(%queue, error = %Chain(error), "a cancel failed"),
                None => warn!(%queue, "a cancel was not answered in time"),
            }
            Err(lost.problem())
        }
    }
}

/// It was seen ended: the final state.
async fn ended(app: &App, named: &Named, before: Found) -> Result<Response, Problem> {
    let generation = before.ticket.generation;
    let found = match named.shard().confirmer {
        // What was read is what is told.
        None => Some((before, None)),
        Some(_) => app.look_to_tell(named).await?,
    };
    let found = found.filter(|(found, _)| found.ticket.generation == generation);
    let (found, safety) = found.ok_or_else(unknown_request)?;
    Ok(shown(StatusCode::OK, named, &Seen::from(found).with_safety(safety)))
}

/// Redis said that it is ended, and like this: from here on whatever fails must not say otherwise.
async fn after(app: &App, named: &Named, before: Found, outcome: Outcome) -> Response {
    let generation = before.ticket.generation;
    let found = app.look_to_tell(named).await.ok().flatten();
    let seen = match found.filter(|(found, _)| found.ticket.generation == generation) {
        Some((found, safety)) => Seen::from(found).with_safety(safety),
        // That it is ended is all that is known.
        None => {
            let safety = named.shard().confirmer.as_ref().map(|it| it.unsafe_answer());
            Seen::ended_as(outcome, before.ticket).with_safety(safety)
        }
    };
    shown(StatusCode::OK, named, &seen)
}

/// The worker is being told.
fn asked(named: &Named, mut found: Found) -> Response {
    found.ticket.cancel_asked = true;
    let seen = match found.home {
        Some(Home::Leased) => Seen::from(found),
        // A claim between our look and the cancel is not in what we saw: of its lease nothing is known.
        _ => Seen::at(Some(Home::Leased), found.ticket),
    };
    shown(StatusCode::ACCEPTED, named, &seen)
}

#[cfg(test)]
mod tests;
