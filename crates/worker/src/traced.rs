//! What a collector of traces is told of an attempt.

use holdfast_core::model::{Handle, QueueName, Request, Ticket};
use holdfast_core::script::SettleKind;
use holdfast_runtime::Traces;
use holdfast_runtime::traces::{Attribute, Span};

/// What came back of a call, as far as it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The status that came, whatever became of the body.
    pub(crate) status: Option<u16>,
    /// What went wrong, by its word.
    pub(crate) error: Option<&'static str>,
}

/// The span of an attempt that is about to be made, and whose it is; none if nobody is told.
pub(crate) fn begin(
    traces: &Traces,
    queue: &QueueName,
    (handle, ticket): (&Handle, &Ticket),
    request: &Request,
) -> Option<Span> {
    let stored = request.envelope.traceparent.as_deref();
    let mut span = traces.attempt(stored, handle, ticket.attempts)?;
    span.tell(Attribute::Queue(queue));
    span.tell(Attribute::Id(&request.identity.id));
    span.tell(Attribute::Generation(ticket.generation));
    span.tell(Attribute::Attempt(ticket.attempts));
    if ticket.lapses > 0 {
        span.tell(Attribute::Lapses(ticket.lapses));
    }
    Some(span)
}

/// Ends it with what came back, and what is made of that. An attempt that is taken back was none:
/// the next one has its number, and so its name.
pub(crate) fn end(mut span: Span, heard: Heard, kind: &SettleKind) {
    if let SettleKind::Release { sent: false, .. } = kind {
        return;
    }
    if let Some(status) = heard.status {
        span.tell(Attribute::Status(status));
    }
    if let Some(error) = heard.error {
        span.tell(Attribute::Error(error));
    }
    span.tell(Attribute::Outcome(kind.word().word()));
    span.end();
}
