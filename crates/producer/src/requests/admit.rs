//! What every submitted item goes through, alone or in a batch: read, named, packed, sent, told.

use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;
use holdfast_core::model::{Digest, Draft, Envelope, Generation, Request, TenantName};
use holdfast_core::script::{FullOf, LimitOf, Submission};
use holdfast_runtime::traces::Span;
use tokio::sync::OwnedSemaphorePermit;
use tracing::error;

use super::head::traceparent;
use crate::admission::{Candidate, Told};
use crate::api::given_request_id;
use crate::app::{App, Named, Queue};
use crate::batcher::{Place, Unanswered};
use crate::ended::Watch;
use crate::item::{Field, Item, ItemError, TimeFault};
use crate::path::read_id;
use crate::problem::{Kind, Problem};
use crate::status::Seen;
use crate::store::{self, Again};
use crate::who::Caller;
use crate::{durable, id, traced};

/// What the head of a call says about all its items.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    tenant: TenantName,
    request_id: Option<String>,
    traceparent: Option<String>,
}

impl Origin {
    /// Reads it.
    pub(crate) fn new(caller: &Caller, headers: &HeaderMap) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            request_id: given_request_id(headers).map(|value| text(value.as_bytes())),
            traceparent: traceparent(headers),
        }
    }
}

/// The bytes of an item.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    /// As they came, and nothing around them.
    pub(crate) bytes: &'a Bytes,
    /// Their share of the memory for bodies.
    pub(crate) share: OwnedSemaphorePermit,
    /// When they were read, in Unix ms of the Redis clock.
    pub(crate) now_ms: u64,
}

/// An item that was read, and is to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    named: Named,
    /// Its id, if its caller gave none.
    made: Option<String>,
    candidate: Candidate,
    /// Its `not_before` lies in the past: only what was accepted when that lay ahead may come again with it.
    must_be_kept: bool,
}

/// An item on its way to Redis.
#[derive(Debug)]
pub(crate) struct Sent {
    named: Named,
    made: Option<String>,
    place: Place<Told>,
}

/// A request that is kept, and whether it was before.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) named: Named,
    pub(crate) seen: Seen,
    pub(crate) replayed: bool,
}

impl Prepared {
    /// Names and packs an item whose caller named it so.
    pub(crate) fn new(
        app: &App,
        origin: &Origin,
        (queue, given): (&Arc<Queue>, Option<String>),
        item: Item,
        received: Received<'_>,
    ) -> Result<Self, Problem> {
        let made = given.is_none().then(id::fresh);
        let id = read_id(given.or_else(|| made.clone()).as_deref().unwrap_or_default())?;
        let named = Named::new(Arc::clone(queue), &origin.tenant, id);
        let must_be_kept = item.not_before_ms.is_some_and(|start| start <= received.now_ms);
        let candidate = candidate((app, &named), origin, item, received)?;
        Ok(Self { named, made, candidate, must_be_kept })
    }

    /// What it is called.
    pub(crate) fn named(&self) -> &Named {
        &self.named
    }

    /// Waits for its end from now on, before it is sent.
    pub(crate) fn watch(&self, app: &App) -> Watch {
        app.ended.watch(self.named.key, self.candidate.generation)
    }

    /// How many bytes of a call it takes.
    pub(crate) fn size(&self) -> usize {
        self.candidate.submission.size()
    }

    /// Whether something must be looked up before it may be sent.
    pub(crate) fn must_be_kept(&self) -> bool {
        self.must_be_kept
    }

    /// Sends it, and waits for what becomes of it.
    pub(crate) async fn admit(
        self,
        app: &App,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Admitted, Problem> {
        if self.must_be_kept {
            app.look(&self.named).await?.ok_or_else(|| past(Field::NotBefore))?;
        }
        self.send(place)?.told().await
    }

    /// Puts it behind those that wait for the next call to its shard; one of a batch has a place there of its own.
    pub(crate) fn send(self, place: Option<OwnedSemaphorePermit>) -> Result<Sent, Problem> {
        let Self { named, made, mut candidate, .. } = self;
        candidate.place = place;
        let bytes = candidate.submission.size();
        let place = named.shard().submits.send(candidate, bytes).map_err(|_| store::crowded())?;
        Ok(Sent { named, made, place })
    }
}

impl Sent {
    /// What became of it.
    pub(crate) async fn told(self) -> Result<Admitted, Problem> {
        let Self { named, made, place } = self;
        let told = match place.answer().await {
            Ok(told) => told,
            Err(Unanswered::Sent) => Told::Unknown,
            Err(Unanswered::NotSent) => Told::Unreachable,
            Err(Unanswered::Crowded) => return Err(store::crowded()),
        };
        let (seen, replayed) = read(told).map_err(|problem| with_made_id(problem, made))?;
        Ok(Admitted { named, seen, replayed })
    }
}

/// Who is to repeat with the same id must know it.
fn with_made_id(problem: Problem, made: Option<String>) -> Problem {
    match made {
        Some(id) if matches!(problem.kind(), Kind::OutcomeUnknown | Kind::StoreDenied) => {
            problem.with("id", id)
        }
        _ => problem,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn envelope(item: &Item, origin: &Origin, span: Option<&Span>) -> Envelope {
    Envelope {
        path: item.path.clone(),
        headers: item.headers.clone(),
        // The parser took it as JSON, which is UTF-8.
        metadata: item.metadata.as_deref().map(text),
        request_id: origin.request_id.clone(),
        // Attempts go on from here, and so does the gateway.
        traceparent: span.map(Span::traceparent).or_else(|| origin.traceparent.clone()),
    }
}

fn candidate(
    (app, named): (&App, &Named),
    origin: &Origin,
    item: Item,
    received: Received<'_>,
) -> Result<Candidate, Problem> {
    let generation = Generation::random();
    let span = traced::begin(&app.traces, origin.traceparent.as_deref(), named, generation);
    let envelope = envelope(&item, origin, span.as_ref());
    let draft = Draft {
        generation,
        digest: Digest::of(&named.identity, received.bytes),
        deadline: item.deadline_ms,
        not_before: item.not_before_ms.unwrap_or(0),
        body_size: u32::try_from(item.payload.len()).unwrap_or(u32::MAX),
    };
    let request = Request {
        identity: named.identity.clone(),
        // Empty: the tenant's.
        lane: String::new(),
        envelope,
        body: item.payload,
    };
    let submission = Submission::new(named.key, &draft, &request).map_err(|_| {
        error!(queue = %named.queue.name, "a request could not be packed");
        Problem::new(Kind::Internal, "the request could not be packed; nothing was stored")
    })?;
    Ok(Candidate {
        submission: submission.limited(app.limits(named)),
        generation: draft.generation,
        digest: draft.digest,
        _share: received.share,
        place: None,
        span,
    })
}

/// What is kept now, and whether it was before; else the problem.
fn read(told: Told) -> Result<(Seen, bool), Problem> {
    match told {
        Told::Accepted(seen) => Ok((seen, false)),
        Told::Replayed(seen) => Ok((seen, true)),
        Told::Reused(seen) => Err(reused(&seen)),
        Told::Full(FullOf::Requests) => Err(full("requests")),
        Told::Full(FullOf::Bytes) => Err(full("bytes")),
        Told::Over(limit) => Err(over(limit)),
        Told::Late => Err(past(Field::Deadline)),
        Told::Spoiled => Err(Problem::new(
            Kind::Internal,
            "a counter of the queue was overwritten in the store; nothing was stored",
        )),
        Told::StoreFull => Err(store::store_full()),
        Told::StoreReadOnly => Err(store::store_read_only()),
        Told::StoreDenied { may_have_run } => {
            Err(store::store_denied(may_have_run.then_some(Again::Submit)))
        }
        Told::Unsafe(missing) => Err(durable::unavailable(missing)),
        Told::Unreachable => Err(store::unreachable_store()),
        Told::Unknown => Err(store::outcome_unknown(Again::Submit)),
    }
}

fn reused(seen: &Seen) -> Problem {
    Problem::new(Kind::IdReused, "another request with other bytes is kept under this id")
        .with("state", seen.state())
        .with("generation", seen.ticket.generation.to_string())
}

fn full(what: &'static str) -> Problem {
    Problem::new(Kind::QueueFull, format!("the queue holds as many {what} as it may"))
        .with("limit", what)
}

/// The limits go by the names that the settings give them.
fn over(limit: LimitOf) -> Problem {
    let (limit, detail) = match limit {
        LimitOf::Requests => ("queued", "this tenant has as many requests in the queue as it may"),
        LimitOf::Bytes => ("bytes", "this tenant has as many bytes in the queue as it may"),
        LimitOf::Rate => ("submits_per_second", "this tenant submits faster than it may"),
    };
    Problem::new(Kind::TenantOverLimit, detail).with("limit", limit)
}

fn past(field: Field) -> Problem {
    ItemError::Time { field, fault: TimeFault::Past }.into()
}

/// The label of a submit: each problem counts under its own name.
pub(crate) fn outcome(admitted: &Result<Admitted, Problem>) -> &'static str {
    match admitted {
        Ok(Admitted { replayed: true, .. }) => "replayed",
        Ok(_) => "accepted",
        Err(problem) => problem.kind().name(),
    }
}
