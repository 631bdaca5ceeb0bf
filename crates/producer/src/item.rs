//! One submitted item: read once, its payload never copied and never re-encoded.

mod error;
mod fields;
mod headers;
mod time;

use std::time::Duration;

use bytes::Bytes;
use holdfast_runtime::settings::Allowed;

pub(crate) use self::error::{HeaderFault, ItemError, TimeFault};
pub(crate) use self::fields::Field;
use self::fields::Fields;
use crate::depth::{self, MAX_DEPTH};
use crate::id;

/// The furthest that a deadline or a `not_before` may lie ahead.
pub(crate) const HORIZON: Duration = Duration::from_hours(30 * 24);

/// The most bytes that `metadata` may take: it is shown with each status.
pub(crate) const MAX_METADATA: usize = 16 * 1024;

/// What is needed beside the body to understand it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Now, in Unix milliseconds.
    pub(crate) now_ms: u64,
    /// How long a request may take whose caller says nothing about it.
    pub(crate) timeout_default: Duration,
    /// What the request may say of its call to the gateway.
    pub(crate) allowed: &'a Allowed,
}

/// A request as its caller wrote it.
///
/// A deadline or `not_before` in the past is no error here: the same bytes may have been accepted
/// when it lay ahead, and a repeat of those is answered, not refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// The caller's name for the request, if there is one.
    pub(crate) id: Option<String>,
    /// When an answer is of no more use, in Unix milliseconds.
    pub(crate) deadline_ms: u64,
    /// The earliest time for the first attempt, in Unix milliseconds.
    pub(crate) not_before_ms: Option<u64>,
    /// Where at the gateway it goes, if not where all requests of the queue go.
    pub(crate) path: Option<String>,
    /// What is sent along, as name in lower case and value.
    pub(crate) headers: Vec<(String, String)>,
    /// A JSON object that is the caller's own, byte for byte.
    pub(crate) metadata: Option<Bytes>,
    /// What the gateway will be sent, byte for byte.
    pub(crate) payload: Bytes,
}

impl Item {
    /// Reads an item; payload and metadata share the memory of `body`.
    pub(crate) fn parse(body: &Bytes, frame: Frame<'_>) -> Result<Self, ItemError> {
        if body.is_empty() {
            return Err(ItemError::Empty);
        }
        if !depth::within(body, MAX_DEPTH) {
            return Err(ItemError::TooDeep);
        }
        let fields = Fields::parse(body)?;
        let id = fields.get(Field::Id).map(read_id).transpose()?;
        let deadline_ms = read_deadline(&fields, frame)?;
        let not_before_ms = read_not_before(&fields, frame, deadline_ms)?;
        let path = fields.get(Field::Path).map(|raw| read_path(raw, frame.allowed)).transpose()?;
        let headers = fields.get(Field::Headers).map(|raw| headers::read(raw, frame.allowed));
        let metadata = fields.get(Field::Metadata).map(read_metadata).transpose()?;
        let payload = fields.get(Field::Payload).ok_or(ItemError::NoPayload)?;
        if payload == "null" {
            return Err(ItemError::NoPayload);
        }
        let part = |text: &str| body.slice_ref(text.as_bytes());
        Ok(Self {
            id,
            deadline_ms,
            not_before_ms,
            path,
            headers: headers.transpose()?.unwrap_or_default(),
            metadata: metadata.map(part),
            payload: part(payload),
        })
    }
}

fn read_id(raw: &str) -> Result<String, ItemError> {
    // A lone surrogate fails here too: such a text is no sequence of characters.
    let id: String = serde_json::from_str(raw).map_err(|_| ItemError::BadId)?;
    if id::is_id(&id) { Ok(id) } else { Err(ItemError::BadId) }
}

fn read_path(raw: &str, allowed: &Allowed) -> Result<String, ItemError> {
    let path: String = serde_json::from_str(raw).map_err(|_| ItemError::PathNotAllowed)?;
    if allowed.path(&path) { Ok(path) } else { Err(ItemError::PathNotAllowed) }
}

fn read_metadata(raw: &str) -> Result<&str, ItemError> {
    if raw.starts_with('{') && raw.len() <= MAX_METADATA {
        Ok(raw)
    } else {
        Err(ItemError::BadMetadata)
    }
}

fn read_deadline(fields: &Fields<'_>, frame: Frame<'_>) -> Result<u64, ItemError> {
    let after = |timeout: Duration| {
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        frame.now_ms.saturating_add(timeout_ms)
    };
    match (fields.get(Field::Deadline), fields.get(Field::Timeout)) {
        (Some(_), Some(_)) => Err(ItemError::DeadlineAndTimeout),
        (Some(raw), None) => time::unix_seconds(raw, frame.now_ms)
            .map_err(|fault| ItemError::Time { field: Field::Deadline, fault }),
        (None, Some(raw)) => time::timeout(raw)
            .map(after)
            .map_err(|fault| ItemError::Time { field: Field::Timeout, fault }),
        (None, None) => Ok(after(frame.timeout_default)),
    }
}

fn read_not_before(
    fields: &Fields<'_>,
    frame: Frame<'_>,
    deadline_ms: u64,
) -> Result<Option<u64>, ItemError> {
    let Some(raw) = fields.get(Field::NotBefore) else { return Ok(None) };
    let not_before_ms = time::unix_seconds(raw, frame.now_ms)
        .map_err(|fault| ItemError::Time { field: Field::NotBefore, fault })?;
    if not_before_ms >= deadline_ms {
        return Err(ItemError::NotBeforeDeadline);
    }
    Ok(Some(not_before_ms))
}

#[cfg(test)]
mod tests;
