//! `POST …/requests`: 202 once the request is kept.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use holdfast_core::metrics;
use holdfast_core::model::{Digest, Draft, Envelope, Generation, Home, Request, TenantName};
use holdfast_core::script::{FullOf, LimitOf, Submission};
use holdfast_runtime::keys::Scope;
use tracing::error;

use super::head::{choose_id, traceparent};
use super::shown;
use crate::admission::{Candidate, Told};
use crate::api::given_request_id;
use crate::app::{App, Named, Queue};
use crate::batcher::Unanswered;
use crate::body::{self, Held};
use crate::item::{Field, Frame, Item, ItemError, TimeFault};
use crate::path::{InQueue, read_id};
use crate::problem::{Kind, Problem};
use crate::query::{Known, Query};
use crate::status::Seen;
use crate::who::Caller;
use crate::{id, prefer, result, store, wait};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// `POST …/requests`: takes in one request.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let admitted = async {
        Query::parse(query.as_deref(), Known::Nothing)?;
        body::check_type(&headers)?;
        let held = body::read(body, queue.body_limit, &app.memory).await?;
        admit(&app, &queue, &caller.tenant, &headers, held).await
    };
    let admitted = admitted.await;
    metrics::submitted(queue.name.as_str(), outcome(&admitted));
    match admitted {
        Ok(admitted) => {
            // A result is for those who may read; a preference may be passed over.
            let may_read = caller.scopes.has(Scope::Read);
            let wait = prefer::wait(&headers).filter(|_| may_read);
            answer(&app, admitted, wait).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// A request that is kept, and whether it was before.
struct Admitted {
    named: Named,
    seen: Seen,
    replayed: bool,
}

async fn admit(
    app: &App,
    queue: &Arc<Queue>,
    tenant: &TenantName,
    headers: &HeaderMap,
    held: Held,
) -> Result<Admitted, Problem> {
    let now_ms = app.store.clock.now_ms();
    let frame = Frame { now_ms, timeout_default: queue.timeout_default, allowed: &queue.allowed };
    let mut item = Item::parse(&held.bytes, frame)?;
    let given = choose_id(item.id.take(), headers)?;
    let made = given.is_none().then(id::fresh);
    let id = read_id(given.or_else(|| made.clone()).as_deref().unwrap_or_default())?;
    let named = Named::new(Arc::clone(queue), tenant, id);
    if item.not_before_ms.is_some_and(|start| start <= now_ms) {
        // Only what was accepted when it lay ahead may come again with it.
        app.look(&named).await?.ok_or_else(|| past(Field::NotBefore))?;
    }
    let envelope = envelope(&item, headers);
    let candidate = candidate(app, &named, item, envelope, held)?;
    let bytes = candidate.submission.size();
    let told = match named.shard().submits.ask(candidate, bytes).await {
        Ok(told) => told,
        Err(Unanswered::Sent) => Told::Unknown,
        Err(Unanswered::NotSent) => Told::Unreachable,
        Err(Unanswered::Crowded) => return Err(store::crowded()),
    };
    let (seen, replayed) = read(told).map_err(|problem| with_made_id(problem, made))?;
    Ok(Admitted { named, seen, replayed })
}

/// Who is to repeat with the same id must know it.
fn with_made_id(problem: Problem, made: Option<String>) -> Problem {
    match made {
        Some(id) if problem.kind() == Kind::OutcomeUnknown => problem.with("id", id),
        _ => problem,
    }
}

fn envelope(item: &Item, headers: &HeaderMap) -> Envelope {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Envelope {
        path: item.path.clone(),
        headers: item.headers.clone(),
        // The parser took it as JSON, which is UTF-8.
        metadata: item.metadata.as_deref().map(text),
        request_id: given_request_id(headers).map(|value| text(value.as_bytes())),
        traceparent: traceparent(headers),
    }
}

fn candidate(
    app: &App,
    named: &Named,
    item: Item,
    envelope: Envelope,
    held: Held,
) -> Result<Candidate, Problem> {
    let draft = Draft {
        generation: Generation::random(),
        digest: Digest::of(&named.identity, &held.bytes),
        deadline: item.deadline_ms,
        not_before: item.not_before_ms.unwrap_or(0),
        body_size: u32::try_from(item.payload.len()).unwrap_or(u32::MAX),
    };
    let request = Request {
        identity: named.identity.clone(),
        // Empty: the tenant's.
        lane: String::new(),
        envelope,
        body: item.payload,
    };
    let submission = Submission::new(named.key, &draft, &request).map_err(|_| {
        error!(queue = %named.queue.name, "a request could not be packed");
        Problem::new(Kind::Internal, "the request could not be packed; nothing was stored")
    })?;
    Ok(Candidate {
        submission: submission.limited(app.limits(named)),
        generation: draft.generation,
        digest: draft.digest,
        _share: held.share,
    })
}

/// What is kept now, and whether it was before; else the problem.
fn read(told: Told) -> Result<(Seen, bool), Problem> {
    match told {
        Told::Accepted(seen) => Ok((seen, false)),
        Told::Replayed(seen) => Ok((seen, true)),
        Told::Reused(seen) => Err(reused(&seen)),
        Told::Full(FullOf::Requests) => Err(full("requests")),
        Told::Full(FullOf::Bytes) => Err(full("bytes")),
        Told::Over(limit) => Err(over(limit)),
        Told::Late => Err(past(Field::Deadline)),
        Told::StoreFull => Err(store::store_full()),
        Told::StoreReadOnly => Err(store::store_read_only()),
        Told::Unreachable => Err(store::unreachable_store()),
        Told::Unknown => Err(store::outcome_unknown()),
    }
}

fn reused(seen: &Seen) -> Problem {
    Problem::new(Kind::IdReused, "another request with other bytes is kept under this id")
        .with("state", seen.state())
        .with("generation", seen.ticket.generation.to_string())
}

fn full(what: &'static str) -> Problem {
    Problem::new(Kind::QueueFull, format!("the queue holds as many {what} as it may"))
        .with("limit", what)
}

/// The limits go by the names that the settings give them.
fn over(limit: LimitOf) -> Problem {
    let (limit, detail) = match limit {
        LimitOf::Requests => ("queued", "this tenant has as many requests in the queue as it may"),
        LimitOf::Bytes => ("bytes", "this tenant has as many bytes in the queue as it may"),
        LimitOf::Rate => ("submits_per_second", "this tenant submits faster than it may"),
    };
    Problem::new(Kind::TenantOverLimit, detail).with("limit", limit)
}

fn past(field: Field) -> Problem {
    ItemError::Time { field, fault: TimeFault::Past }.into()
}

/// 202 or 200 with the status; the result, if the caller wants to wait and it comes in time.
async fn answer(app: &App, admitted: Admitted, wait: Option<Duration>) -> Response {
    let Admitted { named, mut seen, replayed } = admitted;
    let code = if replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = None;
    let wait = wait.map(|wait| wait.min(app.wait_max));
    // From here on the request is kept, and whatever fails must not say otherwise.
    if let Some(wait) = wait {
        let until = tokio::time::Instant::now() + wait;
        let generation = seen.ticket.generation;
        if let Ok(Some(found)) = wait::until_over(app, &named, generation, until).await
            && found.ticket.generation == generation
        {
            if found.home.is_some_and(Home::is_end) {
                response = result::of_ended(app, &named, generation).await.ok();
            }
            seen = Seen::from(found);
        }
    } else if replayed && let Ok(Some(found)) = app.look(&named).await {
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

/// The path of a request: neither name needs an escape.
fn location(named: &Named) -> String {
    format!("/v1/queues/{}/requests/{}", named.queue.name, named.identity.id)
}

/// The label of a submit: each problem counts under its own name.
fn outcome(admitted: &Result<Admitted, Problem>) -> &'static str {
    match admitted {
        Ok(Admitted { replayed: true, .. }) => "replayed",
        Ok(_) => "accepted",
        Err(problem) => problem.kind().name(),
    }
}

#[cfg(test)]
mod tests;
