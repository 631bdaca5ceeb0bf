//! `/v1/queues`: what the queues hold.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use holdfast_core::Chain;
use holdfast_core::script::{Depth, DepthReply};
use serde_json::{Value, json};
use tracing::warn;

use crate::app::{App, Queue};
use crate::path::InQueue;
use crate::problem::Problem;
use crate::query::{Known, Query};
use crate::status::seconds;
use crate::store::{patiently, unreachable_store};

/// `GET /v1/queues`: every declared queue.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    Query::parse(query.as_deref(), Known::Nothing)?;
    let mut queues = Vec::with_capacity(app.queues.len());
    for queue in app.queues.values() {
        queues.push(describe(&app, queue).await?);
    }
    Ok(Json(json!({ "queues": queues })))
}

/// `GET /v1/queues/{queue}`: one of them.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    InQueue(queue): InQueue,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    Query::parse(query.as_deref(), Known::Nothing)?;
    describe(&app, &queue).await.map(Json)
}

async fn describe(app: &App, queue: &Queue) -> Result<Value, Problem> {
    let mut shards = Vec::with_capacity(queue.shards.len());
    for shard in &queue.shards {
        let depth = Depth { shard: &shard.keys };
        let call = || depth.run(&app.store.redis);
        let answered = patiently(app.store.patience, call).await.map_err(|lost| {
            let error = lost.error.as_ref().map(|error| Chain(error).to_string());
            warn!(queue = %queue.name, error, "the depth of a queue was not read");
            unreachable_store()
        })?;
        shards.push(answered.answer);
    }
    Ok(shown(queue, &shards))
}

fn shown(queue: &Queue, shards: &[DepthReply]) -> Value {
    let sum = |count: fn(&DepthReply) -> u64| shards.iter().map(count).sum::<u64>();
    let ages = shards.iter().filter_map(|it| Some(it.now.saturating_sub(it.head_submitted?)));
    let slacks = shards.iter().filter_map(|it| Some(it.head_deadline?.saturating_sub(it.now)));
    json!({
        "name": queue.name.as_str(),
        "shards": queue.policy.shards,
        "requests": {
            "pending": sum(|it| it.pending),
            "suspects": sum(|it| it.suspects),
            "delayed": sum(|it| it.delayed),
            "leased": sum(|it| it.leased),
            "finished": sum(|it| it.finished),
            "dead": sum(|it| it.dead),
        },
        "bytes": sum(|it| it.bytes),
        "head_age_seconds": ages.max().and_then(seconds),
        "head_slack_seconds": slacks.min().and_then(seconds),
        "paused": shards.iter().any(|it| it.paused),
        "limits": {
            "capacity": queue.policy.capacity,
            "capacity_bytes": queue.policy.capacity_bytes,
            "in_flight": queue.policy.in_flight,
            "override": shards.iter().find_map(|it| it.limit),
        },
    })
}
