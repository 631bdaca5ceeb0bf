//! The end of a stream of events, as the API says it that all of these gateways speak: `data: [DONE]`.
//!
//! What HTTP says about the end of such an answer comes behind it, and with some gateways never: they hold the
//! connection, ping for ever, or cut it. The answer is told all the same, and calling the model again would
//! tell it no better.

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::http::response::Parts;

/// What the last event says.
const WORD: &[u8] = b"[DONE]";

/// As much of its event as may have come behind the word without ending it.
const PENDING: usize = 2;

/// Looks for the last event in a body that grows.
#[derive(Default)]
pub(super) struct LastEvent {
    looked_at: usize,
}

impl LastEvent {
    /// For an answer in which there may be one: a success, in events that can be read as they come.
    pub(super) fn of(head: &Parts) -> Option<Self> {
        let kind = head.headers.get(CONTENT_TYPE)?.as_bytes();
        let kind = kind.split(|byte| *byte == b';').next()?.trim_ascii();
        let is_stream = head.status.is_success()
            && kind.eq_ignore_ascii_case(b"text/event-stream")
            && !head.headers.contains_key(CONTENT_ENCODING);
        is_stream.then(Self::default)
    }

    /// Whether it stands, whole, in what has come since the last look.
    pub(super) fn has_come(&mut self, body: &[u8]) -> bool {
        let from = self.looked_at.saturating_sub(WORD.len() + PENDING);
        self.looked_at = body.len();
        body[from..].windows(WORD.len()).enumerate().any(|(at, word)| {
            let (before, rest) = body.split_at(from + at);
            word == WORD && is_event(before, &rest[WORD.len()..])
        })
    }
}

/// Whether the word between is all the data of an event, and the event is whole.
fn is_event(before: &[u8], after: &[u8]) -> bool {
    let field = before.strip_suffix(b"data: ").or_else(|| before.strip_suffix(b"data:"));
    // The cheap one first: the other goes back over a whole line.
    end_of_line(after).and_then(end_of_line).is_some() && field.is_some_and(begins_data)
}

/// Whether behind these bytes a line begins, and none of data stands before it.
fn begins_data(before: &[u8]) -> bool {
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let Some((last, line)) = before.split_last() else { return true };
    // Asked first: a line that is full of the word would be gone back over for each.
    if !ends(last) {
        return false;
    }
    let line = line.strip_suffix(b"\r").filter(|_| *last == b'\n').unwrap_or(line);
    let line = &line[line.iter().rposition(ends).map_or(0, |at| at + 1)..];
    !line.starts_with(b"data")
}

/// What comes behind the end of a line, if that is what stands there.
fn end_of_line(bytes: &[u8]) -> Option<&[u8]> {
    [&b"\r\n"[..], b"\n", b"\r"].into_iter().find_map(|end| bytes.strip_prefix(end))
}
