//! Reads the body of a submit within limits of type, size and memory.
//!
//! The time that a body may take is limited below, for every listener of the process alike.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use bytes::{Bytes, BytesMut};
use holdfast_core::counted;
use holdfast_runtime::serve::BodyTimeout;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::{Kind, Problem};

/// A body, and its share of the memory for bodies: free again when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    pub(crate) share: OwnedSemaphorePermit,
}

/// Reads a body of at most `limit` bytes whole. `memory` has one permit a byte for all bodies that
/// are in the process.
pub(crate) async fn read(
    mut body: Body,
    limit: usize,
    memory: &Arc<Semaphore>,
) -> Result<Held, Problem> {
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let mut share = take(memory, 0)?;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(unfinished)?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        share.merge(take(memory, data.len())?);
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(Held { bytes: first, share });
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(Held { bytes: whole.freeze(), share })
}

/// Takes memory for bytes that came, so that a body which only announces its size holds none.
pub(crate) fn take(memory: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
    u32::try_from(bytes)
        .ok()
        .and_then(|bytes| Arc::clone(memory).try_acquire_many_owned(bytes).ok())
        .ok_or_else(|| {
            Problem::new(Kind::Overloaded, "the memory for bodies is in use; nothing was stored")
        })
}

/// The body did not come to its end.
pub(crate) fn unfinished(err: axum::Error) -> Problem {
    if BodyTimeout::caused(&err) {
        return Problem::new(Kind::RequestTimeout, "the body did not come whole in time");
    }
    // The caller left, or broke the rules of HTTP: in most cases nobody hears this.
    Problem::new(Kind::InvalidItem, "the body ended before its announced length")
}

pub(crate) fn too_large(limit: usize) -> Problem {
    let most = counted(limit, "byte", "bytes");
    Problem::new(Kind::BodyTooLarge, format!("a body here has at most {most}")).with("limit", limit)
}

/// What a body says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// JSON.
    Json,
    /// JSON values, one a line.
    Lines,
}

/// The names of JSON lines that are in use; none is registered.
const LINES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/// Refuses a body that does not say it is JSON in UTF-8, as it is.
///
/// A missing type is refused too: a web page of another origin may send such a body without asking
/// first, and where there are no keys nothing else would stop it.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    match said(headers)? {
        Some(Said::Json) => Ok(()),
        _ => Err(unsupported("Content-Type must be application/json, charset utf-8 or none")),
    }
}

/// The same for many items: one JSON array, or lines.
pub(crate) fn check_type_of_many(headers: &HeaderMap) -> Result<Said, Problem> {
    said(headers)?.ok_or_else(|| {
        unsupported(
            "Content-Type must be application/json or application/x-ndjson, charset utf-8 or none",
        )
    })
}

fn said(headers: &HeaderMap) -> Result<Option<Said>, Problem> {
    let identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).into_iter().all(identity) {
        return Err(unsupported("the body must not be compressed"));
    }
    let mut types = headers.get_all(CONTENT_TYPE).into_iter();
    Ok(match (types.next(), types.next()) {
        (Some(only), None) => kind(only),
        _ => None,
    })
}

fn unsupported(detail: &'static str) -> Problem {
    Problem::new(Kind::UnsupportedMediaType, detail)
}

fn kind(value: &HeaderValue) -> Option<Said> {
    let mut parts = value.to_str().ok()?.split(';').map(str::trim);
    let name = parts.next()?.to_ascii_lowercase();
    let said = match name.as_str() {
        "application/json" => Said::Json,
        name if LINES.contains(&name) => Said::Lines,
        _ => return None,
    };
    parts.filter(|part| !part.is_empty()).all(is_utf8_or_no_charset).then_some(said)
}

fn is_utf8_or_no_charset(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
}

#[cfg(test)]
mod tests;
