//! What a collector of traces is told of a submit.

use holdfast_core::model::Generation;
use holdfast_runtime::Traces;
use holdfast_runtime::traces::{Attribute, Span};

use crate::admission::Told;
use crate::app::Named;

/// The span of a submit that was read and is to be sent; none if nobody is told.
pub(crate) fn begin(
    traces: &Traces,
    caller: Option<&str>,
    named: &Named,
    generation: Generation,
) -> Option<Span> {
    let mut span = traces.submit(caller)?;
    span.tell(Attribute::Queue(&named.queue.name));
    span.tell(Attribute::Id(&named.identity.id));
    span.tell(Attribute::Generation(generation));
    Some(span)
}

/// Ends it with what became of the submit. What was refused, or was there before, has no span: no
/// attempt will ever be a child of it.
pub(crate) fn end(mut span: Span, told: &Told) {
    let outcome = match told {
        Told::Accepted(_) => "accepted",
        Told::Unknown => "outcome-unknown",
        _ => return,
    };
    span.tell(Attribute::Outcome(outcome));
    if let Told::Unknown = told {
        span.tell(Attribute::Error(outcome));
    }
    span.end();
}
