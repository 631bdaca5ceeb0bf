//! Traces: what a collector is told of a request on its way from its submit to the gateway.
//!
//! One request is one tree. The producer's span of the submit is the parent; its context lies in
//! the envelope, so that whichever worker has the request goes on from it. Each attempt is a child
//! of it, and is linked to the attempts before: their names follow from the request, so that they
//! can also be named when the worker that made them is dead and has exported nothing.
//!
//! Off unless an endpoint is set: then there are no spans, no task and no connection. What is told
//! is a closed set, [`Attribute`]: never a body, an answer, a key or the value of a header.
//!
//! # Layout
//!
//! `context` is a span's place in its trace, `otlp` the messages, `export` the task that sends them.

mod context;
mod export;
mod otlp;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_core::metrics::{self, SpanOutcome};
use holdfast_core::model::{Generation, Handle, QueueName, RequestId};
use tokio::sync::mpsc;

use crate::settings::Collector;
use context::Context;
pub(crate) use export::Exporter;
use otlp::{KeyValue, Link, Status, Value};

/// How many spans wait for their export at most; further ones are dropped and counted.
const WAITING: usize = 8192;

/// How many attempts a span is linked to at most, the latest first.
const LINKS: u32 = 32;

/// Where spans begin. Clones are the same; the default is off.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<mpsc::Sender<otlp::Span>>);

/// What may be told of a span.
#[derive(Clone, Copy, Debug)]
pub enum Attribute<'a> {
    /// The queue.
    Queue(&'a QueueName),
    /// The caller's name for the request, or the one it was given.
    Id(&'a RequestId),
    /// The accepted submission.
    Generation(Generation),
    /// Which attempt it is, from 1 on.
    Attempt(u32),
    /// How many leases of the request have run out before.
    Lapses(u16),
    /// What became of it, by a word of the code.
    Outcome(&'static str),
    /// The status of an answer.
    Status(u16),
    /// What went wrong, by a word of the code. The span then counts as failed.
    Error(&'static str),
}

/// Where spans of `service` begin, and what sends them to the collector.
pub(crate) fn open(
    collector: &Collector,
    service: &str,
    instance: Option<&str>,
) -> (Traces, Exporter) {
    metrics::traces_opened();
    let (traces, ended) = Traces::begin();
    (traces, Exporter::new(collector.traces().clone(), service, instance, ended))
}

/// The context of a `traceparent`, as it is written on; none if it is none, or one that nobody may go on from.
pub fn context(traceparent: &str) -> Option<String> {
    Context::parse(traceparent).map(|context| context.to_string())
}

/// A span that has begun. Dropped before its end, it was never there.
#[derive(Debug)]
pub struct Span {
    queue: mpsc::Sender<otlp::Span>,
    context: Context,
    began: Instant,
    told: otlp::Span,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Calls another service.
    Client = 3,
    /// Leaves work to another process.
    Producer = 4,
}

impl Traces {
    /// Spans, and where those that have ended come out.
    fn begin() -> (Self, mpsc::Receiver<otlp::Span>) {
        let (queue, ended) = mpsc::channel(WAITING);
        (Self(Some(queue)), ended)
    }

    /// Begins the span of a submit: in the trace of the caller's `traceparent`, else in one of its
    /// own. None if traces are off, or the caller has said that this one is not recorded.
    pub fn submit(&self, traceparent: Option<&str>) -> Option<Span> {
        let queue = self.0.as_ref()?;
        let caller = traceparent.and_then(Context::parse);
        if caller.is_some_and(|caller| !caller.is_sampled()) {
            return None;
        }
        let context = caller.map_or_else(Context::new, Context::child);
        Some(Span::begin(queue, ("submit", Kind::Producer), context, caller))
    }

    /// Begins the span of an attempt, which is the `number`th of what `handle` names, counted from
    /// 1. None if traces are off, or nothing that is recorded came with the request.
    pub fn attempt(&self, traceparent: Option<&str>, handle: &Handle, number: u32) -> Option<Span> {
        let queue = self.0.as_ref()?;
        let parent = Context::parse(traceparent?).filter(|parent| parent.is_sampled())?;
        let context = parent.attempt(handle, number);
        let mut span = Span::begin(queue, ("attempt", Kind::Client), context, Some(parent));
        let before = (1..number).rev().take(LINKS as usize);
        span.told.links = before.map(|earlier| parent.attempt(handle, earlier).into()).collect();
        Some(span)
    }
}

impl Span {
    fn begin(
        queue: &mpsc::Sender<otlp::Span>,
        (name, kind): (&str, Kind),
        context: Context,
        parent: Option<Context>,
    ) -> Self {
        let told = otlp::Span {
            trace_id: context.trace.to_be_bytes().to_vec(),
            span_id: context.span.to_be_bytes().to_vec(),
            parent_span_id: parent.map_or_else(Vec::new, |it| it.span.to_be_bytes().to_vec()),
            name: name.to_owned(),
            kind: kind as i32,
            start_time_unix_nano: now(),
            flags: context.flags(parent.is_some()),
            ..otlp::Span::default()
        };
        Self { queue: queue.clone(), context, began: Instant::now(), told }
    }

    /// The `traceparent` by which others go on from this span.
    pub fn traceparent(&self) -> String {
        self.context.to_string()
    }

    /// Tells something of it.
    pub fn tell(&mut self, attribute: Attribute<'_>) {
        if let Attribute::Error(_) = attribute {
            self.told.status = Some(Status { code: otlp::ERROR });
        }
        self.told.attributes.push(attribute.into());
    }

    /// Ends it now. If too many wait for their export, it is dropped and counted.
    pub fn end(mut self) {
        let took = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.told.end_time_unix_nano = self.told.start_time_unix_nano.saturating_add(took);
        if self.queue.try_send(self.told).is_err() {
            metrics::spans(SpanOutcome::Dropped, 1);
        }
    }
}

impl From<Context> for Link {
    fn from(context: Context) -> Self {
        Self {
            trace_id: context.trace.to_be_bytes().to_vec(),
            span_id: context.span.to_be_bytes().to_vec(),
            flags: context.flags(true),
        }
    }
}

impl From<Attribute<'_>> for KeyValue {
    fn from(attribute: Attribute<'_>) -> Self {
        let number = |key, value: u32| Self::new(key, Value::Number(value.into()));
        match attribute {
            Attribute::Queue(queue) => Self::text("holdfast.queue", queue.as_str()),
            Attribute::Id(id) => Self::text("holdfast.id", id.to_string()),
            Attribute::Generation(it) => Self::text("holdfast.generation", it.to_string()),
            Attribute::Attempt(attempt) => number("holdfast.attempt", attempt),
            Attribute::Lapses(lapses) => number("holdfast.lapses", lapses.into()),
            Attribute::Outcome(outcome) => Self::text("holdfast.outcome", outcome),
            Attribute::Status(status) => number("http.response.status_code", status.into()),
            Attribute::Error(error) => Self::text("error.type", error),
        }
    }
}

/// Unix time in ns, by the clock of this host: collectors lay the spans of many hosts side by side.
#[expect(clippy::disallowed_methods, reason = "nothing is decided by when a span began")]
fn now() -> u64 {
    let since: Duration = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
