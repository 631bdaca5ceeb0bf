//! Takes an answer exactly as it comes: status, chosen headers as raw bytes, body bytes.

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use holdfast_core::model;
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::events::LastEvent;
use super::faults;
use crate::classify::{Fault, is_retried};

/// The headers that are kept with an answer, if they are there.
pub(crate) const KEPT_HEADERS: [&str; 5] =
    ["content-type", "content-encoding", "x-request-id", "retry-after", "location"];

/// As much of the body as is kept of an answer that is too large.
pub(crate) const KEPT_HEAD: usize = 4096;

/// The largest head of an answer, all fields together.
pub(super) const HEAD_LIMIT: usize = 64 * 1024;

/// Room that is made ahead on the word of a Content-Length, which may be a lie.
const RESERVED: usize = 1024 * 1024;

/// How long a stream that has said all it has to say is read on, for its end as HTTP says it.
const LINGER: Duration = Duration::from_secs(1);

/// An answer of the gateway, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 200 to 999.
    pub(crate) status: u16,
    /// Those of [`KEPT_HEADERS`] that came; values as they came, also what is not ASCII.
    pub(crate) headers: Vec<(&'static str, Bytes)>,
    /// Byte for byte as it came, a content encoding included.
    pub(crate) body: Bytes,
}

impl Answer {
    /// As it is stored, beside its status.
    pub(crate) fn stored(self) -> (u16, model::Answer) {
        let headers = self.headers.into_iter().map(|(name, value)| (name.to_owned(), value));
        (self.status, model::Answer { headers: headers.collect(), body: self.body })
    }

    /// The values of one kept header.
    pub(crate) fn header(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.headers.iter().filter(move |(kept, _)| *kept == name).map(|(_, value)| &value[..])
    }
}

/// What came of a call that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The whole answer.
    Whole(Answer),
    /// More than the limit allows: the body is only its first [`KEPT_HEAD`] bytes.
    TooLarge(Answer),
    /// A status that asks for another attempt, with a body that came to nothing: the rest of it, without a body.
    Broken(Answer, Fault),
}

/// How much of an answer is taken, and for how long.
pub(super) struct Limits {
    /// Of the body, as it comes and as it unpacks.
    pub(super) bytes: usize,
    /// Between two pieces.
    pub(super) stall: Duration,
    /// The end of the attempt.
    pub(super) end: Instant,
}

/// Whether the head is one that can be trusted to frame its body.
///
/// The client below takes several things that the specification lets a server only send by
/// mistake, and that two readers may read in two ways.
pub(super) fn sound(head: &Parts) -> Result<(), Fault> {
    let size: usize =
        head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let encodings = head.headers.get_all(TRANSFER_ENCODING);
    let chunked = |value: &[u8]| value.eq_ignore_ascii_case(b"chunked");
    let framed = head.headers.contains_key(CONTENT_LENGTH);
    let contradicts = encodings.iter().next().is_some() && framed;
    // The client looks at them only where it expects a body.
    let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
    let first = lengths.next();
    let differ = lengths.any(|length| Some(length) != first);
    let unknown = encodings.iter().any(|value| !chunked(value.as_bytes()));
    // 1xx never reaches this place but for 101, which nobody asked for.
    if size > HEAD_LIMIT || contradicts || differ || unknown || head.status.is_informational() {
        return Err(Fault::MalformedHead);
    }
    Ok(())
}

/// Reads the body and puts the answer together.
pub(super) async fn collect(head: Parts, body: Incoming, limits: &Limits) -> Result<Reply, Fault> {
    let status = head.status.as_u16();
    let answer = |body| Answer { status, headers: kept(&head.headers), body };
    let taken = timeout_at(limits.end, take(&head, body, limits)).await;
    match taken.unwrap_or(Err(Fault::AttemptTimeout)) {
        Ok((whole, true)) => Ok(Reply::Whole(answer(whole))),
        Ok((start, false)) => Ok(Reply::TooLarge(answer(start))),
        // What such a head says of the target, and when to come again, holds without its body.
        Err(fault) if is_retried(status) => Ok(Reply::Broken(answer(Bytes::new()), fault)),
        Err(fault) => Err(fault),
    }
}

/// The body as it is read; one that unpacks to too much is too long as well.
async fn take(head: &Parts, body: Incoming, limits: &Limits) -> Result<(Bytes, bool), Fault> {
    let (body, is_whole) = read(body, limits, LastEvent::of(head)).await?;
    if !is_whole || !is_gzip(&head.headers) || unpacks(body.clone(), limits.bytes).await? {
        return Ok((body, is_whole));
    }
    Ok((body.slice(..body.len().min(KEPT_HEAD)), false))
}

fn kept(headers: &HeaderMap) -> Vec<(&'static str, Bytes)> {
    let mut kept = Vec::new();
    for name in KEPT_HEADERS {
        let values = headers.get_all(name).iter();
        kept.extend(values.map(|value| (name, Bytes::copy_from_slice(value.as_bytes()))));
    }
    kept
}

/// The body, and true; or, where it is too long, its beginning and false. Behind the last event that is looked for, it is
/// whole wherever it ends, and ends soon.
async fn read(
    mut body: Incoming,
    limits: &Limits,
    mut last: Option<LastEvent>,
) -> Result<(Bytes, bool), Fault> {
    let declared = body.size_hint().lower();
    let declared = usize::try_from(declared).unwrap_or(usize::MAX);
    // A body that says it is too long is read only as far as it is kept.
    let limit = limits.bytes;
    let room = if declared > limit { limit.min(KEPT_HEAD) } else { limit };
    let mut bytes = BytesMut::with_capacity(declared.min(room).min(RESERVED));
    let mut done_by = None;
    loop {
        let until = done_by.unwrap_or_else(|| Instant::now() + limits.stall);
        let frame = match timeout_at(until, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break,
            _ if done_by.is_some() => break,
            Ok(Some(Err(err))) => return Err(faults::inside_body(&err)),
            Err(_) => return Err(Fault::Stall),
        };
        let Ok(data) = frame.into_data() else { continue };
        let fits = data.len().min(room - bytes.len());
        bytes.extend_from_slice(&data[..fits]);
        let has_come = |last: &mut LastEvent| last.has_come(&bytes);
        if done_by.is_none() && last.as_mut().is_some_and(has_come) {
            done_by = Some(limits.end.min(Instant::now() + LINGER));
        }
        if fits < data.len() && done_by.is_some() {
            break;
        }
        if fits < data.len() {
            bytes.truncate(KEPT_HEAD);
            return Ok((bytes.freeze(), false));
        }
    }
    Ok((bytes.freeze(), true))
}

/// Whether the body calls itself gzip, and nothing else besides.
fn is_gzip(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let (Some(only), None) = (encodings.next(), encodings.next()) else { return false };
    let only = only.as_bytes().trim_ascii();
    only.eq_ignore_ascii_case(b"gzip") || only.eq_ignore_ascii_case(b"x-gzip")
}

/// Whether a gzip body unpacks to at most `limit` bytes; a fault if it does not unpack at all.
///
/// Nobody asked for an encoding, so what comes in one is kept as it is, with its header. But a
/// body that does not unpack is no answer, and whoever reads the result could not repeat the call.
async fn unpacks(body: Bytes, limit: usize) -> Result<bool, Fault> {
    if body.is_empty() {
        return Ok(true);
    }
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    let unpack = move || {
        let mut unpacked = MultiGzDecoder::new(&body[..]).take(most.saturating_add(1));
        io::copy(&mut unpacked, &mut io::sink())
    };
    // A task of its own: unpacking a large body would hold up everything else on this thread.
    match spawn_blocking(unpack).await {
        Ok(Ok(length)) => Ok(length <= most),
        Ok(Err(err)) if err.kind() == io::ErrorKind::UnexpectedEof => Err(Fault::CutBody),
        Ok(Err(_)) => Err(Fault::LyingBody),
        Err(_) => Err(Fault::Internal),
    }
}
