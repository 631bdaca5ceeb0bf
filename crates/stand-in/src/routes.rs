//! The way of a request: taken in, held, delayed, and answered as the script says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio::time::sleep;

use crate::answer::{Answer, Course, Open};
use crate::arrival::How;
use crate::control;
use crate::journal::Record;
use crate::openai::{self, Made, Question};
use crate::script::Checked;
use crate::server::Shared;
use crate::wire::{Ending, Link};

/// The longest body that is read; more is answered with 413, and is no arrival.
pub const BODY_LIMIT: usize = 64 << 20;

/// Carries the arrival's number, on every answer to an arrival.
const ARRIVAL: HeaderName = HeaderName::from_static("stand-in-arrival");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers a request, whatever it is.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    link: Arc<Link>,
    request: Request<Incoming>,
) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    let body = match read(body).await {
        Ok(body) => body,
        Err(refusal) => return plain(refusal),
    };
    if parts.uri.path().starts_with(control::PREFIX) {
        return plain(control::answer(&shared, &parts, body));
    }
    let (record, rule) = shared.script.pick(&parts, &body, || {
        let record = shared.journal.arrive(&parts, &body);
        (record.number, record)
    });
    shared.script.released().await;
    let delay = rule.as_ref().and_then(|rule| rule.rule.delay_ms).map(Duration::from_millis);
    let delay = delay.unwrap_or(shared.delay);
    if !delay.is_zero() {
        sleep(delay).await;
    }
    match rule {
        None => {
            let made = make(&parts, &body, &record, None);
            respond(&parts, made, None, Open { status: 0, record, link })
        }
        Some(rule) => scripted(&parts, &body, &rule, record, link).await,
    }
}

async fn read(body: Incoming) -> Result<Bytes, Made> {
    let too_large = || {
        let message = "the body is longer than a stand-in reads";
        Made::error(StatusCode::PAYLOAD_TOO_LARGE, message, Some("body_too_large"))
    };
    if body.size_hint().lower() > BODY_LIMIT as u64 {
        return Err(too_large());
    }
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(err) if err.is::<LengthLimitError>() => Err(too_large()),
        // The client broke off, and will hardly read this.
        Err(_) => Err(Made::error(StatusCode::BAD_REQUEST, "the body broke off", None)),
    }
}

async fn scripted(
    parts: &Parts,
    body: &Bytes,
    rule: &Checked,
    mut record: Record,
    link: Arc<Link>,
) -> Response<Answer> {
    if let Some(raw) = &rule.rule.raw {
        record.end(How::Given, None, raw.0.clone());
        link.end(Ending::Raw(raw.0.clone()));
    } else if rule.rule.cut_after_bytes == Some(0) {
        record.end(How::Cut, None, Bytes::new());
        link.end(Ending::Reset);
    } else if !rule.rule.hang {
        let made = make(parts, body, &record, Some(rule));
        return respond(parts, made, Some(rule), Open { status: 0, record, link });
    }
    // The connection's end drops this future, and with it the record.
    std::future::pending().await
}

fn make(parts: &Parts, body: &Bytes, record: &Record, rule: Option<&Checked>) -> Made {
    let status = rule.and_then(|rule| rule.status);
    if let Some(body) = rule.and_then(|rule| rule.rule.body.as_ref()) {
        return Made::bytes(status.unwrap_or(StatusCode::OK), body.0.clone());
    }
    let question = Question {
        method: &parts.method,
        path: parts.uri.path(),
        body,
        arrival: record.number,
        created: record.unix_ms / 1000,
    };
    match status {
        None => openai::answer(&question),
        Some(
            status
            @ (StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED),
        ) => Made::bytes(status, Bytes::new()),
        Some(status) if status.is_success() => Made { status, ..openai::answer(&question) },
        Some(status) => {
            let message = format!("arrival {}: as the script says", record.number);
            Made::error(status, &message, Some("scripted"))
        }
    }
}

fn respond(parts: &Parts, made: Made, rule: Option<&Checked>, open: Open) -> Response<Answer> {
    let number = open.record.number;
    let open = Open { status: made.status.as_u16(), ..open };
    let course = rule.map(|rule| Course::of(&rule.rule)).unwrap_or_default();
    // No body follows the head of an answer to HEAD.
    let whole = if parts.method == Method::HEAD { Bytes::new() } else { made.whole };
    let mut response = Response::new(Answer::new(whole, made.ends, course, open));
    *response.status_mut() = made.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(made.content_type));
    headers.insert(ARRIVAL, HeaderValue::from(number));
    headers.insert(REQUEST_ID, request_id(number));
    if let Some(rule) = rule {
        for (name, value) in &rule.headers {
            headers.insert(name, value.clone());
        }
        if rule.rule.close && parts.version < Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    response
}

fn request_id(number: u64) -> HeaderValue {
    HeaderValue::try_from(format!("req_{number}")).unwrap_or(HeaderValue::from(number))
}

/// An answer that belongs to no arrival.
fn plain(made: Made) -> Response<Answer> {
    let mut response = Response::new(Answer::plain(made.whole));
    *response.status_mut() = made.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(made.content_type));
    response
}
