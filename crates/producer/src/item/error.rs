//! Why a body is no item.

use super::headers::{MAX_HEADER_BYTES, MAX_HEADERS};
use super::{Field, MAX_DEPTH, MAX_METADATA};
use crate::id::ID_RULE;

/// Why a body is no item: told by field and place, nothing that stands there is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ItemError {
    /// There is no body.
    #[error("the item is empty; it must be one JSON object")]
    Empty,
    /// The parser stopped.
    #[error("the item is not JSON in UTF-8 as RFC 8259 defines it: line {line}, column {column}")]
    Syntax { line: usize, column: usize },
    /// JSON, but another kind of value.
    #[error("the item must be one JSON object")]
    NotAnObject,
    /// Too many brackets inside each other.
    #[error("the item nests deeper than {MAX_DEPTH} levels of arrays and objects")]
    TooDeep,
    /// A field that an item does not have.
    #[error(
        "field number {position} of the item is unknown; an item has id, deadline or timeout, \
         not_before, path, headers, metadata and payload"
    )]
    UnknownField { position: usize },
    /// A field that stands there twice.
    #[error("{field} stands there twice")]
    DuplicateField { field: Field },
    /// A path that the queue's settings do not list.
    #[error("path must be one that the queue allows (allow_paths), exactly as it stands there")]
    PathNotAllowed,
    /// Headers of another shape, or that the queue's settings do not list.
    #[error("{fault}")]
    Headers { fault: HeaderFault },
    /// No payload, or null, which is what many writers put for nothing.
    #[error("payload is missing; it may be any JSON value but null")]
    NoPayload,
    /// Metadata of another shape.
    #[error("metadata must be a JSON object of at most {MAX_METADATA} bytes")]
    BadMetadata,
    /// An id outside the grammar.
    #[error("id must be a string of {ID_RULE}")]
    BadId,
    /// Two ways to say one thing.
    #[error("deadline and timeout stand side by side: give one of them")]
    DeadlineAndTimeout,
    /// A start that leaves no time for an attempt.
    #[error("not_before must lie before the deadline")]
    NotBeforeDeadline,
    /// A time that is none.
    #[error("{field} {}: {fault}", rule(*field))]
    Time { field: Field, fault: TimeFault },
}

impl ItemError {
    /// The same, told of an item that begins at this line and column of a body.
    pub(crate) fn within(self, at_line: usize, at_column: usize) -> Self {
        match self {
            Self::Syntax { line, column } => Self::Syntax {
                line: at_line + line.saturating_sub(1),
                column: if line > 1 { column } else { at_column + column.saturating_sub(1) },
            },
            other => other,
        }
    }

    /// The field that is to blame, if it is one alone.
    pub(crate) fn field(&self) -> Option<Field> {
        match *self {
            Self::DuplicateField { field } | Self::Time { field, .. } => Some(field),
            Self::PathNotAllowed => Some(Field::Path),
            Self::Headers { .. } => Some(Field::Headers),
            Self::NoPayload => Some(Field::Payload),
            Self::BadMetadata => Some(Field::Metadata),
            Self::BadId => Some(Field::Id),
            Self::NotBeforeDeadline => Some(Field::NotBefore),
            Self::DeadlineAndTimeout => Some(Field::Deadline),
            Self::Empty
            | Self::Syntax { .. }
            | Self::NotAnObject
            | Self::TooDeep
            | Self::UnknownField { .. } => None,
        }
    }
}

fn rule(field: Field) -> &'static str {
    if field == Field::Timeout { TIMEOUT_RULE } else { UNIX_RULE }
}

/// The rule for `deadline` and `not_before`, as a caller is told it.
pub(crate) const UNIX_RULE: &str =
    "must be an integer, Unix seconds, not in the past and at most 30 days ahead";

const TIMEOUT_RULE: &str = "must be a string of one whole number and one unit of ms, s, m, h and \
     d, without a space, from 1ms to 30d, such as \"90s\"";

/// What is wrong with the headers. A header is told by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderFault {
    /// Another kind of value.
    #[error("headers must be a JSON object whose values are strings")]
    NotTexts,
    /// More than a gateway can be expected to take.
    #[error("headers may be {MAX_HEADERS} and {MAX_HEADER_BYTES} bytes together, at most")]
    TooMany,
    /// Not in the list.
    #[error("header number {position} is not one that the queue allows (allow_headers)")]
    NotAllowed { position: usize },
    /// The same name again, whatever the case of its letters.
    #[error("header number {position} has the name of another")]
    Twice { position: usize },
    /// A value that is none.
    #[error(
        "the value of header number {position} must be printable ASCII, without a space at \
         its start or end"
    )]
    Value { position: usize },
}

impl HeaderFault {
    /// Which header it is, counted from 1.
    pub(crate) fn position(self) -> Option<usize> {
        match self {
            Self::NotTexts | Self::TooMany => None,
            Self::NotAllowed { position } | Self::Twice { position } | Self::Value { position } => {
                Some(position)
            }
        }
    }
}

/// What is wrong with a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimeFault {
    /// A string, null, a list: no number.
    #[error("it is not a number")]
    NotANumber,
    /// A point or an exponent.
    #[error("it has a fraction or an exponent")]
    NotWhole,
    /// Below zero.
    #[error("it is negative")]
    Negative,
    /// In the past, and no request is kept that it was accepted for.
    #[error("it is in the past")]
    Past,
    /// Beyond the horizon.
    #[error("it is too far ahead")]
    TooFar,
    /// Beyond the horizon, and so large that it was surely meant in another unit.
    #[error("it is too far ahead, and looks like milliseconds")]
    LooksLikeMillis,
    /// Another form than a number and a unit.
    #[error("it has another form")]
    NotATimeout,
    /// Zero, or above the horizon.
    #[error("it is out of range")]
    OutOfRange,
}
