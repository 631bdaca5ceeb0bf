//! Reads the body of a submit within limits of type, size, time and memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::problem::{Kind, Problem};

/// How much one body may be and take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most bytes.
    pub(crate) bytes: usize,
    /// The longest time until its last byte.
    pub(crate) time: Duration,
}

/// A body, and its share of the memory for bodies: free again when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    pub(crate) share: OwnedSemaphorePermit,
}

/// Reads a body whole. `memory` has one permit a byte for all bodies that are in the process.
pub(crate) async fn read(
    body: Body,
    limits: Limits,
    memory: &Arc<Semaphore>,
) -> Result<Held, Problem> {
    if body.size_hint().lower() > limits.bytes as u64 {
        return Err(too_large(limits));
    }
    timeout(limits.time, collect(body, limits, memory)).await.unwrap_or_else(|_| {
        let seconds = limits.time.as_secs();
        let detail = format!("the whole body must come within {seconds} s");
        Err(Problem::new(Kind::RequestTimeout, detail))
    })
}

async fn collect(mut body: Body, limits: Limits, memory: &Arc<Semaphore>) -> Result<Held, Problem> {
    let mut share = take(memory, 0)?;
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // The caller left, or broke the rules of HTTP: in most cases nobody hears this.
        let cut = |_| Problem::new(Kind::InvalidItem, "the body ended before its announced length");
        let Ok(data) = frame.map_err(cut)?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limits.bytes {
            return Err(too_large(limits));
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
fn take(memory: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
    u32::try_from(bytes)
        .ok()
        .and_then(|bytes| Arc::clone(memory).try_acquire_many_owned(bytes).ok())
        .ok_or_else(|| {
            Problem::new(Kind::Overloaded, "the memory for bodies is in use; nothing was stored")
        })
}

fn too_large(limits: Limits) -> Problem {
    Problem::new(Kind::BodyTooLarge, format!("a body here has at most {} bytes", limits.bytes))
        .with("limit", limits.bytes)
}

/// Refuses a body that does not say it is JSON in UTF-8, as it is.
///
/// A missing type is refused too: a web page of another origin may send such a body without asking
/// first, and where there are no keys nothing else would stop it.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |detail| Err(Problem::new(Kind::UnsupportedMediaType, detail));
    let mut types = headers.get_all(CONTENT_TYPE).into_iter();
    match (types.next(), types.next()) {
        (Some(only), None) if is_json(only) => {}
        _ => return refused("Content-Type must be application/json, charset utf-8 or none"),
    }
    let identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).into_iter().all(identity) {
        return refused("the body must not be compressed");
    }
    Ok(())
}

fn is_json(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let mut parts = text.split(';').map(str::trim);
    let json = parts.next().is_some_and(|it| it.eq_ignore_ascii_case("application/json"));
    json && parts.filter(|part| !part.is_empty()).all(is_utf8_or_no_charset)
}

fn is_utf8_or_no_charset(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
}

#[cfg(test)]
mod tests;
