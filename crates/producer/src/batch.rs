//! `POST …/batch`: any number of items, read and answered as a stream.
//!
//! `cut` finds the items in a body that comes in parts, `items` reads them within limits of size, memory and time, `run` has
//! them admitted as single submits are, `outcome` is what is told of each. Nothing is read while nobody takes what is
//! told, and a caller that leaves takes the rest of its batch along.

pub(crate) mod cut;
mod items;
mod outcome;
mod run;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::{Extension, RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use holdfast_runtime::serve::BodyDeadline;
use hyper::body::Frame;
use tokio::sync::mpsc;

pub(crate) use self::outcome::Line;

use self::items::Items;
use self::run::Run;
use crate::app::App;
use crate::body;
use crate::openapi::{Answer, Input, Operation, Shape};
use crate::path::InQueue;
use crate::problem::{Kind, Problem};
use crate::query::{Known, Query};
use crate::requests::{Origin, refuse_idempotency_key};
use crate::who::Caller;

const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// The entry of [`batch`].
pub(crate) const BATCH: Operation = Operation {
    id: "submitBatch",
    summary: "Submit any number of requests, read and answered as a stream",
    parameters: &[],
    body: &[
        Input { kind: "application/x-ndjson", shape: Shape::ItemLines },
        Input { kind: "application/json", shape: Shape::Items },
    ],
    answers: &[Answer {
        status: 207,
        when: "A line for each item, in their order; the schema Outcome says what stands in one",
        kind: "application/x-ndjson",
        shape: Shape::OutcomeLines,
        headers: &[],
        leads_to: &[],
    }],
    refusals: &[Kind::InvalidBatch, Kind::RequestTimeout, Kind::UnsupportedMediaType],
};

/// `POST …/batch`: takes in many requests; 207, and a line for each.
pub(crate) async fn batch(
    State(app): State<Arc<App>>,
    InQueue(queue): InQueue,
    caller: Caller,
    RawQuery(query): RawQuery,
    deadline: Option<Extension<BodyDeadline>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), Known::Nothing)?;
    let said = body::check_type_of_many(&headers)?;
    refuse_idempotency_key(&headers)?;
    let deadline = deadline.map(|Extension(deadline)| deadline);
    let items = Items::new((body, said, deadline), queue.body_limit, Arc::clone(&app.memory));
    let origin = Origin::new(&caller, &headers);
    let (lines, told) = mpsc::channel(1);
    let running = Box::pin(Run { app, queue, origin, items, lines }.run());
    let mut told = Told { first: None, running: Some(running), told };
    // The head waits for the first outcome: what is no batch at all is told by a status of its own.
    told.first = poll_fn(|cx| told.poll_line(cx)).await?;
    Ok((StatusCode::MULTI_STATUS, [(CONTENT_TYPE, NDJSON)], Body::new(told)).into_response())
}

type Running = Pin<Box<dyn Future<Output = Result<(), Problem>> + Send>>;

/// The outcomes, as the body of an answer. The batch goes on while this is read, and ends when it is dropped.
struct Told {
    first: Option<Bytes>,
    running: Option<Running>,
    told: mpsc::Receiver<Bytes>,
}

impl Told {
    /// The next outcomes, once there are some; none at the end.
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Problem>> {
        if let Some(running) = &mut self.running
            && let Poll::Ready(ended) = running.as_mut().poll(cx)
        {
            self.running = None;
            ended?;
        }
        self.told.poll_recv(cx).map(Ok)
    }
}

impl HttpBody for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        // Once something was told, a problem is told in a line, and never here.
        self.poll_line(cx).map(|line| line.ok().flatten().map(|line| Ok(Frame::data(line))))
    }
}
