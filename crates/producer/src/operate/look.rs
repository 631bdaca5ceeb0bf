//! What operators look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use holdfast_core::operate::{self, LeaseRow, Queue, QueueRow, Rows, Why, WorkerRow};
use schemars::JsonSchema;
use serde::Serialize;

use super::ask::{Id, Named, Params, unregistered};
use super::{unread, unseen};
use crate::app::App;
use crate::problem::{Kind, Problem};

/// Queues as operators see them.
#[derive(JsonSchema, Serialize)]
pub(crate) struct QueueRows {
    queues: Vec<QueueRow>,
}

/// `GET /v1/ops/queues`: every queue of the settings and of the registry.
pub(super) async fn queues(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<QueueRows>, Problem> {
    Params::parse(query.as_deref(), &[])?;
    let queues = all(&app).await?;
    let queues = operate::queue_rows(&app.store.redis, &queues).await.map_err(unread)?;
    Ok(Json(QueueRows { queues }))
}

/// `GET /v1/ops/queues/{queue}`: one of them.
pub(super) async fn queue(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    RawQuery(query): RawQuery,
) -> Result<Json<QueueRow>, Problem> {
    Params::parse(query.as_deref(), &[])?;
    let rows = operate::queue_rows(&app.store.redis, &[queue]).await.map_err(unread)?;
    let missing = || Problem::new(Kind::Internal, "a queue was looked at and not seen");
    rows.into_iter().next().map(Json).ok_or_else(missing)
}

/// `GET /v1/ops/queues/{queue}/why/{id}`: where a request is and why.
pub(super) async fn why(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    id: Id,
    RawQuery(query): RawQuery,
) -> Result<Json<Why>, Problem> {
    let identity = id.of(&Params::parse(query.as_deref(), &["tenant"])?)?;
    operate::why(&app.store.redis, &queue, &identity).await.map(Json).map_err(unseen)
}

/// `GET /v1/ops/leases`: what is leased, and to whom.
pub(super) async fn leases(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Rows<LeaseRow>>, Problem> {
    let params = Params::parse(query.as_deref(), &["queue", "limit"])?;
    let mut queues = all(&app).await?;
    if let Some(only) = params.get("queue") {
        queues.retain(|queue| queue.name.as_str() == only);
        if queues.is_empty() {
            return Err(unregistered(only));
        }
    }
    let rows = operate::lease_rows(&app.store.redis, &queues, params.limit()?).await;
    rows.map(Json).map_err(unread)
}

/// `GET /v1/ops/workers`: who is there, and what each holds.
pub(super) async fn workers(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Json<Rows<WorkerRow>>, Problem> {
    Params::parse(query.as_deref(), &[])?;
    let queues = all(&app).await?;
    let rows = operate::worker_rows(&app.store.redis, &queues).await.map_err(unread)?;
    Ok(Json(Rows { rows, unreadable: 0, more: false }))
}

/// The queues of the settings, and those that others have registered.
async fn all(app: &App) -> Result<Vec<Queue>, Problem> {
    let registered = operate::queues(&app.store.redis).await.map_err(unread)?;
    let mut queues: BTreeMap<_, _> =
        registered.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
    for (name, queue) in &app.queues {
        let (name, shards) = (name.clone(), queue.policy.shards);
        queues.insert(name.clone(), Queue { name, shards });
    }
    Ok(queues.into_values().collect())
}
