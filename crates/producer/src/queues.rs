//! `/v1/queues`: what the queues hold.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use holdfast_core::Chain;
use holdfast_core::script::{Depth, DepthReply};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Number;
use tracing::warn;

use crate::app::{App, Queue};
use crate::openapi::{Answer, Operation, Shape};
use crate::path::InQueue;
use crate::problem::Problem;
use crate::query::{Known, Query};
use crate::status::seconds;
use crate::store::{Unread, patiently};

/// The entry of [`list`].
pub(crate) const LIST: Operation = Operation {
    id: "listQueues",
    summary: "Every queue of this service, and what it holds",
    parameters: &[],
    body: &[],
    answers: &[Answer::json(200, "The queues", Shape::Queues)],
    refusals: &Unread::KINDS,
};

/// The entry of [`show`].
pub(crate) const SHOW: Operation = Operation {
    id: "getQueue",
    summary: "What a queue holds",
    answers: &[Answer::json(200, "The queue", Shape::Queue)],
    ..LIST
};

/// Every queue.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Queues {
    queues: Vec<Described>,
}

/// What a queue holds, over all its shards.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Queue")]
pub(crate) struct Described {
    name: String,
    shards: u32,
    requests: Counts,
    /// What requests and records take.
    bytes: u64,
    /// Age of the next to be claimed; null if none waits.
    head_age_seconds: Option<Number>,
    /// The time until its deadline; null if none waits.
    head_slack_seconds: Option<Number>,
    /// Whether claims are stopped.
    paused: bool,
    limits: Limits,
}

/// How many requests are in each state.
#[derive(Debug, JsonSchema, Serialize)]
struct Counts {
    pending: u64,
    suspects: u64,
    delayed: u64,
    leased: u64,
    finished: u64,
    dead: u64,
}

/// How much there may be.
#[derive(Debug, JsonSchema, Serialize)]
struct Limits {
    capacity: u64,
    capacity_bytes: u64,
    /// Null: as many as the workers take.
    in_flight: Option<u64>,
    /// An operator's, in place of `in_flight`; null if there is none.
    r#override: Option<u64>,
}

/// `GET /v1/queues`: every declared queue.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Queues>, Problem> {
    Query::parse(query.as_deref(), Known::Nothing)?;
    let mut queues = Vec::with_capacity(app.queues.len());
    for queue in app.queues.values() {
        queues.push(describe(&app, queue).await?);
    }
    Ok(Json(Queues { queues }))
}

/// `GET /v1/queues/{queue}`: one of them.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    InQueue(queue): InQueue,
    RawQuery(query): RawQuery,
) -> Result<Json<Described>, Problem> {
    Query::parse(query.as_deref(), Known::Nothing)?;
    describe(&app, &queue).await.map(Json)
}

async fn describe(app: &App, queue: &Queue) -> Result<Described, Problem> {
    let mut shards = Vec::with_capacity(queue.shards.len());
    for shard in &queue.shards {
        let depth = Depth { shard: &shard.keys };
        let call = || depth.run(&app.store.redis);
        let answered = patiently(app.store.patience, call).await.map_err(|lost| {
            let error = lost.error.as_ref().map(|error| Chain(error).to_string());
            warn!(queue = %queue.name, error, "the depth of a queue was not read");
            lost.unread().problem()
        })?;
        shards.push(answered.answer);
    }
    Ok(Described::of(queue, &shards))
}

impl Described {
    fn of(queue: &Queue, shards: &[DepthReply]) -> Self {
        let sum = |count: fn(&DepthReply) -> u64| shards.iter().map(count).sum::<u64>();
        let ages = shards.iter().filter_map(|it| Some(it.now.saturating_sub(it.head_submitted?)));
        let slacks = shards.iter().filter_map(|it| Some(it.head_deadline?.saturating_sub(it.now)));
        Self {
            name: queue.name.to_string(),
            shards: queue.policy.shards.get(),
            requests: Counts {
                pending: sum(|it| it.pending),
                suspects: sum(|it| it.suspects),
                delayed: sum(|it| it.delayed),
                leased: sum(|it| it.leased),
                finished: sum(|it| it.finished),
                dead: sum(|it| it.dead),
            },
            bytes: sum(|it| it.bytes),
            head_age_seconds: ages.max().and_then(seconds),
            head_slack_seconds: slacks.min().and_then(seconds),
            paused: shards.iter().any(|it| it.paused),
            limits: Limits {
                capacity: queue.policy.capacity,
                capacity_bytes: queue.policy.capacity_bytes,
                in_flight: queue.policy.in_flight,
                r#override: shards.iter().find_map(|it| it.limit),
            },
        }
    }
}
