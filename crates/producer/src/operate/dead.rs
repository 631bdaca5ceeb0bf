//! Dead letters over HTTP: a page of them, one, and running them again.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use holdfast_core::operate::{
    self, ActError, Audit, DeadFilter, DeadLetter, DeadPage, RedriveAsk, Redriven, Target,
};

use super::ask::{Id, Named, Operator, Params, read};
use super::{refused, unseen};
use crate::app::App;
use crate::problem::Problem;

/// How long one call goes on running dead letters again, before it says how far it came.
const CALL: Duration = Duration::from_secs(5);

const LISTED_BY: &[&str] =
    &["tenant", "outcome", "failure", "older_seconds", "younger_seconds", "cursor", "limit"];

/// `GET …/dead`: a page of dead letters.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    RawQuery(query): RawQuery,
) -> Result<Json<DeadPage>, Problem> {
    let params = Params::parse(query.as_deref(), LISTED_BY)?;
    let filter = DeadFilter {
        tenant: params.text("tenant"),
        outcome: params.text("outcome"),
        failure: params.text("failure"),
        older_seconds: params.number("older_seconds")?,
        younger_seconds: params.number("younger_seconds")?,
    };
    let (cursor, limit) = (params.get("cursor"), params.limit()?);
    let page = operate::dead_rows(&app.store.redis, &queue, &filter, cursor, limit).await;
    page.map(Json).map_err(unseen)
}

/// `GET …/dead/letters/{id}`: one, with everything but its body.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    id: Id,
    RawQuery(query): RawQuery,
) -> Result<Json<DeadLetter>, Problem> {
    let identity = id.of(&Params::parse(query.as_deref(), &["tenant"])?)?;
    let target = Target { queue: &queue, identity: &identity };
    operate::dead_letter(&app.store.redis, target).await.map(Json).map_err(unseen)
}

/// `POST …/dead/redrive`: counts, or runs again what was counted.
pub(super) async fn redrive(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    Operator(who): Operator,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Redriven>, Problem> {
    let ask: RedriveAsk = read(&app, &headers, body).await?;
    if ask.dry_run {
        return operate::count(&app.store.redis, &queue, &ask).await.map(Json).map_err(unseen);
    }
    let (redis, of, asked) = (app.store.redis.clone(), queue.clone(), ask.clone());
    let note = move |done: &Result<Redriven, ActError>| {
        Audit::of_redrive(&who, &of, &asked, done).log();
    };
    let action = async move { operate::redrive(&redis, &queue, &ask, CALL).await };
    app.acts.run(note, action).await.map(Json).map_err(refused)
}
