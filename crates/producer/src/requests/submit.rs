//! `POST …/requests`: 202 once the request is kept.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use holdfast_core::metrics;
use holdfast_core::model::Home;
use holdfast_core::script::Found;
use holdfast_runtime::keys::Scope;

use super::admit::{Admitted, Origin, Prepared, Received, outcome};
use super::head::choose_id;
use super::shown;
use crate::app::{App, Named, Queue};
use crate::body::{self, Held};
use crate::ended::Watch;
use crate::item::Item;
use crate::openapi::{Answer, Input, Operation, Parameter, Shape};
use crate::path::InQueue;
use crate::problem::{Kind, Problem};
use crate::query::{Known, Query};
use crate::status::Seen;
use crate::who::Caller;
use crate::{prefer, result, wait};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Headers of every answer that tells of an accepted request.
const HEADERS: &[&str] = &["Location", "Idempotent-Replayed", "Preference-Applied"];

/// Calls that take the id of an answer.
const LEADS_TO: &[&str] = &["getRequest", "getResult", "cancelRequest"];

/// The entry of [`submit`].
pub(crate) const SUBMIT: Operation = Operation {
    id: "submitRequest",
    summary: "Submit a request",
    parameters: &[Parameter::Prefer, Parameter::IdempotencyKey],
    body: &[Input { kind: "application/json", shape: Shape::Item }],
    answers: &[
        Answer {
            status: 200,
            when: "A repeat: the state as it is; or the result, which was waited for",
            kind: "*/*",
            shape: Shape::Anything,
            headers: HEADERS,
            leads_to: &[],
        },
        Answer::json(
            202,
            "It is kept; durability says how safely, if its queue asks",
            Shape::Status,
        )
        .with(HEADERS)
        .leading_to(LEADS_TO),
    ],
    refusals: &[
        Kind::InvalidItem,
        Kind::TooDeep,
        Kind::InvalidId,
        Kind::InvalidDeadline,
        Kind::DeadlinePassed,
        Kind::RequestTimeout,
        Kind::BodyTooLarge,
        Kind::UnsupportedMediaType,
        Kind::IdReused,
        Kind::QueueFull,
        Kind::TenantOverLimit,
        Kind::StoreFull,
        Kind::StoreUnreachable,
        Kind::StoreReadOnly,
        Kind::StoreDenied,
        Kind::OutcomeUnknown,
        Kind::DurabilityUnavailable,
        Kind::Overloaded,
    ],
};

/// `POST …/requests`: takes in one request.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    // A result is for those who may read; a preference may be passed over.
    let wait = prefer::wait(&headers).filter(|_| caller.scopes.has(Scope::Read));
    let admitted = async {
        Query::parse(query.as_deref(), Known::Nothing)?;
        body::check_type(&headers)?;
        let held = body::read(body, queue.body_limit, &app.memory).await?;
        admit(&app, &queue, &caller, (&headers, held), wait.is_some()).await
    };
    let (admitted, watch) = match admitted.await {
        Ok((admitted, watch)) => (Ok(admitted), watch),
        Err(problem) => (Err(problem), None),
    };
    metrics::submitted(queue.name.as_str(), outcome(&admitted));
    match admitted {
        Ok(admitted) => answer(&app, admitted, wait, watch).await,
        Err(problem) => problem.into_response(),
    }
}

async fn admit(
    app: &App,
    queue: &Arc<Queue>,
    caller: &Caller,
    (headers, held): (&HeaderMap, Held),
    waits: bool,
) -> Result<(Admitted, Option<Watch>), Problem> {
    let now_ms = app.store.clock.now_ms();
    let frame = queue.frame(now_ms);
    let mut item = Item::parse(&held.bytes, frame)?;
    let given = choose_id(item.id.take(), headers)?;
    let origin = Origin::new(caller, headers);
    let received = Received { bytes: &held.bytes, share: held.share, now_ms };
    let prepared = Prepared::new(app, &origin, (queue, given), item, received)?;
    // Before it is sent: however soon it ends, that is heard.
    let watch = waits.then(|| prepared.watch(app));
    Ok((prepared.admit(app, None).await?, watch))
}

/// 202 or 200 with the status; the result, if the caller wants to wait and it comes in time.
async fn answer(
    app: &App,
    admitted: Admitted,
    wait: Option<Duration>,
    watch: Option<Watch>,
) -> Response {
    let Admitted { named, mut seen, replayed } = admitted;
    let code = if replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = None;
    let wait = wait.map(|wait| wait.min(app.wait_max));
    // From here on the request is kept, and whatever fails must not say otherwise.
    if let Some(wait) = wait {
        let until = tokio::time::Instant::now() + wait;
        let generation = seen.ticket.generation;
        // Of a repeat, another generation may be meant.
        let watch = watch.filter(|watch| watch.is_for(generation));
        let waited = wait::until_over(app, &named, generation, until, watch).await;
        if let Ok(Some(found)) = waited
            && found.ticket.generation == generation
        {
            if found.home.is_some_and(Home::is_end) {
                response = result::of_ended(app, &named, found.clone(), generation).await.ok();
            }
            if response.is_none()
                && let Some(now) = seen_now(app, &named, found).await
            {
                seen = now;
            }
        }
    } else if replayed
        && named.shard().confirmer.is_none()
        && let Ok(Some(found)) = app.look(&named).await
    {
        seen = Seen::from(found);
    }
    let mut response = response.unwrap_or_else(|| shown(code, &named, &seen));
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::try_from(location(&named)) {
        headers.insert(LOCATION, location);
    }
    if replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if let Some(wait) = wait {
        headers.insert(prefer::PREFERENCE_APPLIED, prefer::applied(wait));
    }
    response
}

/// A request after a wait, as safe as its queue asks; none if that could not be found out.
async fn seen_now(app: &App, named: &Named, found: Found) -> Option<Seen> {
    if named.shard().confirmer.is_none() {
        return Some(Seen::from(found));
    }
    let (now, safety) = app.look_to_tell(named).await.ok()??;
    let is_it = now.ticket.generation == found.ticket.generation;
    is_it.then(|| Seen::from(now).with_safety(safety))
}

/// The path of a request: neither name needs an escape.
fn location(named: &Named) -> String {
    format!("/v1/queues/{}/requests/{}", named.queue.name, named.identity.id)
}

#[cfg(test)]
mod tests;
