//! `GET …/requests/{id}/result`: the terminal record, whatever it says; a long poll.

mod at_level;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use holdfast_core::model::{Failure, Generation, Home, Outcome, Previous, Record};
use holdfast_core::script::Found;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::error;

use crate::app::{App, Named};
use crate::large::Pieces;
use crate::openapi::{Answer, Operation, Parameter, Shape};
use crate::path::OfRequest;
use crate::problem::{Kind, Problem};
use crate::query::{Known, Query};
use crate::requests::{shown, unknown_request};
use crate::status::Seen;
use crate::{prefer, wait};

const OUTCOME: HeaderName = HeaderName::from_static("holdfast-outcome");
const STATUS: HeaderName = HeaderName::from_static("holdfast-status");
const ATTEMPTS: HeaderName = HeaderName::from_static("holdfast-attempts");
const GENERATION: HeaderName = HeaderName::from_static("holdfast-generation");

/// What else is kept of the gateway's head, and how it is told: under its own name a client would act on it, or take it
/// for ours.
const BESIDE: [(&str, HeaderName); 3] = [
    ("x-request-id", HeaderName::from_static("holdfast-gateway-x-request-id")),
    ("location", HeaderName::from_static("holdfast-gateway-location")),
    ("retry-after", HeaderName::from_static("holdfast-gateway-retry-after")),
];

/// The longest value of these that is told, in bytes: proxies drop an answer whose head is long.
const BESIDE_LIMIT: usize = 2048;

/// When to ask again for what has not ended, in seconds, drawn anew each time.
const AGAIN: std::ops::RangeInclusive<u64> = 1..=3;

/// The entry of [`result`].
pub(crate) const RESULT: Operation = Operation {
    id: "getResult",
    summary: "How a request ended; a long poll",
    parameters: &[Parameter::Wait, Parameter::Generation, Parameter::Prefer],
    body: &[],
    answers: &[
        Answer {
            status: 200,
            when: "It has ended: what the gateway answered, or a problem that says how",
            kind: "*/*",
            shape: Shape::Anything,
            headers: &[
                "Holdfast-Outcome",
                "Holdfast-Status",
                "Holdfast-Attempts",
                "Holdfast-Generation",
                "Holdfast-Gateway-X-Request-Id",
                "Holdfast-Gateway-Location",
                "Holdfast-Gateway-Retry-After",
                "Preference-Applied",
            ],
            leads_to: &[],
        },
        Answer::json(
            202,
            "It has not ended, or that is not as safe as its queue asks",
            Shape::Status,
        )
        .with(&["Retry-After", "Preference-Applied"]),
    ],
    refusals: &[Kind::StoreUnreachable, Kind::StoreReadOnly, Kind::StoreDenied, Kind::Overloaded],
};

/// `GET …/requests/{id}/result`: 200 with the record, 202 while there is none.
pub(crate) async fn result(
    State(app): State<Arc<App>>,
    OfRequest(named): OfRequest,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), Known::GenerationAndWait)?;
    let wait = query.wait.or_else(|| prefer::wait(&headers)).map(|wait| wait.min(app.wait_max));
    let mut response = after_wait(&app, &named, query.generation, wait).await?;
    if let Some(wait) = wait {
        response.headers_mut().insert(prefer::PREFERENCE_APPLIED, prefer::applied(wait));
    }
    Ok(response)
}

async fn after_wait(
    app: &App,
    named: &Named,
    pinned: Option<Generation>,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    if named.shard().confirmer.is_some() {
        return at_level::after_wait(app, named, pinned, wait).await;
    }
    let until = Instant::now() + wait.unwrap_or_default();
    let found = app.look_whole(named).await?.ok_or_else(unknown_request)?;
    // Who names no generation means the one that is there now, also after a long wait.
    let generation = pinned.unwrap_or(found.ticket.generation);
    let ended = |found: &Found| found.home.is_some_and(Home::is_end);
    if found.ticket.generation != generation {
        return replaced(&found, generation);
    }
    if ended(&found) {
        return told(named, &found);
    }
    if wait.is_none_or(|wait| wait.is_zero()) {
        return Ok(not_ended(named, &Seen::from(found)));
    }
    let found =
        wait::until_over(app, named, generation, until, None).await?.ok_or_else(unknown_request)?;
    if found.ticket.generation != generation {
        return replaced(&found, generation);
    }
    if ended(&found) {
        return of_ended(app, named, found, generation).await;
    }
    Ok(not_ended(named, &Seen::from(found)))
}

/// The result of a generation that was seen ended.
pub(crate) async fn of_ended(
    app: &App,
    named: &Named,
    found: Found,
    generation: Generation,
) -> Result<Response, Problem> {
    if named.shard().confirmer.is_some() {
        return at_level::of(app, named, generation).await;
    }
    let found = match found.is_whole() {
        true => found,
        false => app.look_whole(named).await?.ok_or_else(unknown_request)?,
    };
    if found.ticket.generation == generation {
        told(named, &found)
    } else {
        replaced(&found, generation)
    }
}

/// Another generation is there now: an operator's redrive keeps how the last one ended.
fn replaced(found: &Found, generation: Generation) -> Result<Response, Problem> {
    let previous = found.ticket.previous.filter(|previous| previous.generation == generation);
    let Previous { outcome, .. } = previous.ok_or_else(unknown_request)?;
    // Its record gave way, so there is no more to tell than the outcome.
    let outcome = outcome.unwrap_or(Outcome::Unusable);
    let problem =
        Problem::new(kind(outcome), "replaced by a redrive; how it ended is all that is kept");
    let mut response = problem.into_response_with(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(OUTCOME, HeaderValue::from_static(outcome.word()));
    insert_text(headers, GENERATION, &generation.to_string());
    Ok(response)
}

fn not_ended(named: &Named, seen: &Seen) -> Response {
    let mut response = shown(StatusCode::ACCEPTED, named, seen);
    let again = HeaderValue::from(rand::random_range(AGAIN));
    response.headers_mut().insert(RETRY_AFTER, again);
    response
}

fn told(named: &Named, found: &Found) -> Result<Response, Problem> {
    Record::unpack(found.record.clone()).map(response_of).map_err(|_| {
        error!(queue = %named.queue.name, "a record cannot be read");
        Problem::new(Kind::Internal, "the record of this request cannot be read")
    })
}

/// A record as an answer: always 200, since our own statuses never stand for the gateway's.
fn response_of(record: Record) -> Response {
    let generation = record.generation.to_string();
    let (outcome, status, attempts) = (record.outcome, record.status, record.attempts);
    let beside = beside(&record);
    let mut response = match outcome {
        Outcome::Answered => answer_of(record),
        _ => without_answer(&record).into_response_with(StatusCode::OK),
    };
    let headers = response.headers_mut();
    headers.insert(OUTCOME, HeaderValue::from_static(outcome.word()));
    if status > 0 {
        headers.insert(STATUS, HeaderValue::from(status));
    }
    headers.insert(ATTEMPTS, HeaderValue::from(attempts));
    insert_text(headers, GENERATION, &generation);
    headers.extend(beside);
    response
}

/// What is told of the gateway's head beside its body: the first of each. What no reader could take is left out.
fn beside(record: &Record) -> HeaderMap {
    let told = BESIDE.into_iter().filter_map(|(kept, name)| {
        let value = record.answer.header(kept).filter(|value| value.len() <= BESIDE_LIMIT)?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    });
    told.collect()
}

/// The gateway's answer, byte for byte.
fn answer_of(record: Record) -> Response {
    let first = record.answer.header(CONTENT_TYPE.as_str()).cloned();
    // Several encodings may come in several lines. One line means the same, and a reader that looks at the first one
    // misses none.
    let all: Vec<&[u8]> =
        record.answer.headers(CONTENT_ENCODING.as_str()).map(|value| &value[..]).collect();
    let joined = (!all.is_empty()).then(|| Bytes::from(all.join(&b", "[..])));
    let kept = [(CONTENT_TYPE, first), (CONTENT_ENCODING, joined)].map(|(name, value)| {
        // What is no header value was none of the gateway's either.
        (name, value.and_then(|value| HeaderValue::from_bytes(&value).ok()))
    });
    let mut response = Response::new(Body::new(Pieces(record.answer.body)));
    let headers = response.headers_mut();
    for (name, value) in kept {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    // A browser must not run what a gateway answered as if it were ours.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    response
}

/// An end that has no answer to show.
fn without_answer(record: &Record) -> Problem {
    let kind = kind(record.outcome);
    let mut problem = Problem::new(kind, detail(record.outcome));
    if let Some(failure) = record.failure {
        problem = problem.with("last_failure", failure_of(failure));
    }
    if record.outcome == Outcome::AnswerTooLarge {
        problem = problem.with("head", STANDARD.encode(&record.answer.body));
    }
    if record.status > 0 {
        problem = problem.with("gateway_status", record.status);
    }
    problem
}

fn failure_of(failure: Failure) -> Value {
    match failure.status {
        0 => json!({ "code": failure.code.word() }),
        status => json!({ "code": failure.code.word(), "status": status }),
    }
}

fn kind(outcome: Outcome) -> Kind {
    match outcome {
        Outcome::DeadlineExceeded => Kind::DeadlineExceeded,
        Outcome::Cancelled => Kind::Cancelled,
        Outcome::GaveUp => Kind::GaveUp,
        Outcome::KilledWorkers => Kind::KilledWorkers,
        Outcome::AnswerTooLarge => Kind::AnswerTooLarge,
        // An answer has a body of its own; one that is lost cannot be used.
        Outcome::Unusable | Outcome::Answered => Kind::Unusable,
    }
}

fn detail(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "the answer is lost",
        Outcome::DeadlineExceeded => "the deadline passed, and there is no answer to show",
        Outcome::Cancelled => "the request was cancelled before an answer was there",
        Outcome::GaveUp => "the last attempt that the queue allows failed",
        Outcome::KilledWorkers => "its leases lapsed so often that it is held to stop its workers",
        Outcome::Unusable => "what is kept of the request is missing or cannot be decoded",
        Outcome::AnswerTooLarge => {
            "the answer is larger than the queue allows; head is its beginning"
        }
    }
}

/// Hex digits and words only: always a header.
fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
