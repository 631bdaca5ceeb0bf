//! What operators do to a queue, or to one request of it. Each leaves its line in the audit log.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use holdfast_core::model::{Fence, Identity};
use holdfast_core::operate::{self, ActError, Acted, Audit, Overruled, Queue, Seconds, Target};
use holdfast_core::script::Override;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::ask::{Id, Named, Operator, Params, read};
use super::refused;
use crate::app::App;
use crate::problem::{Kind, Problem};

/// The body of a pause or a resume.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pausing {
    /// Only if the override still has this version.
    version: Option<u64>,
    #[serde(default)]
    dry_run: bool,
}

/// The body of a limit.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limiting {
    /// How many; null: as the settings say. It must be there, so that nobody clears a limit by leaving it out.
    #[serde(deserialize_with = "there")]
    #[schemars(schema_with = "number_or_null")]
    in_flight: Option<u64>,
    version: Option<u64>,
    #[serde(default)]
    dry_run: bool,
}

/// The body of a retry-now.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pulling {
    /// Only if it is still due then.
    due: Option<Seconds>,
    #[serde(default)]
    dry_run: bool,
}

/// The body of a release.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Releasing {
    /// Only if it is still leased under this.
    fence: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

fn number_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "null"], "minimum": 0 })
}

fn there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(deserializer)
}

/// `POST …/pause`: stops the claims of a queue.
pub(super) async fn pause(
    app: State<Arc<App>>,
    queue: Named,
    who: Operator,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Overruled>, Problem> {
    let asked: Pausing = read(&app, &headers, body).await?;
    overrule(&app, queue, who, Override::Paused(true), (asked.version, asked.dry_run)).await
}

/// `POST …/resume`: lets them go on.
pub(super) async fn resume(
    app: State<Arc<App>>,
    queue: Named,
    who: Operator,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Overruled>, Problem> {
    let asked: Pausing = read(&app, &headers, body).await?;
    overrule(&app, queue, who, Override::Paused(false), (asked.version, asked.dry_run)).await
}

/// `PUT …/limit`: how many are in flight over all workers.
pub(super) async fn limit(
    app: State<Arc<App>>,
    queue: Named,
    who: Operator,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Overruled>, Problem> {
    let asked: Limiting = read(&app, &headers, body).await?;
    let word = Override::Limit(asked.in_flight);
    overrule(&app, queue, who, word, (asked.version, asked.dry_run)).await
}

async fn overrule(
    app: &App,
    Named(queue): Named,
    Operator(who): Operator,
    word: Override,
    (seen, dry_run): (Option<u64>, bool),
) -> Result<Json<Overruled>, Problem> {
    let (redis, of) = (app.store.redis.clone(), queue.clone());
    let note = move |done: &Result<Overruled, ActError>| {
        if !dry_run {
            Audit::of_word(&who, &of, word, done).log();
        }
    };
    let action = async move { operate::overrule(&redis, &queue, word, seen, dry_run).await };
    app.acts.run(note, action).await.map(Json).map_err(refused)
}

/// `POST …/requests/{id}/retry-now`: pulls a back-off forward.
pub(super) async fn retry_now(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    id: Id,
    who: Operator,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Acted>, Problem> {
    let identity = id.of(&Params::parse(query.as_deref(), &["tenant"])?)?;
    let asked: Pulling = read(&app, &headers, body).await?;
    let due = asked.due.map(|due| due.0);
    let (redis, note) = (app.store.redis.clone(), line(who, "retry-now", &queue, &identity));
    let action = async move {
        let target = Target { queue: &queue, identity: &identity };
        operate::retry_now(&redis, target, due, asked.dry_run).await
    };
    app.acts.run(note, action).await.map(Json).map_err(refused)
}

/// `POST …/leases/{id}/release`: ends a lease.
pub(super) async fn release(
    State(app): State<Arc<App>>,
    Named(queue): Named,
    id: Id,
    who: Operator,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Acted>, Problem> {
    let identity = id.of(&Params::parse(query.as_deref(), &["tenant"])?)?;
    let asked: Releasing = read(&app, &headers, body).await?;
    let fence = asked.fence.map(|text| Fence::try_from(text.as_bytes()));
    let fence = fence.transpose().map_err(|_| {
        let rule = "fence must be 32 hex digits, as a lease shows it";
        Problem::new(Kind::InvalidOperation, rule).with("field", "fence")
    })?;
    let (redis, note) = (app.store.redis.clone(), line(who, "release", &queue, &identity));
    let action = async move {
        let target = Target { queue: &queue, identity: &identity };
        operate::release(&redis, target, fence, asked.dry_run).await
    };
    app.acts.run(note, action).await.map(Json).map_err(refused)
}

/// What notes an action on one request, unless nothing was tried.
fn line(
    Operator(who): Operator,
    action: &'static str,
    queue: &Queue,
    identity: &Identity,
) -> impl FnOnce(&Result<Acted, ActError>) + Send + 'static {
    let (queue, identity) = (queue.clone(), identity.clone());
    move |done| {
        if !done.as_ref().is_ok_and(|done| done.outcome == "dry-run") {
            let target = Target { queue: &queue, identity: &identity };
            Audit::of_one(&who, action, target, done).log();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_cleared_by_saying_null_and_not_by_leaving_it_out() {
        let read = |json| serde_json::from_str::<Limiting>(json).map(|it| it.in_flight);
        assert_eq!(read(r#"{"in_flight":null}"#).unwrap(), None);
        assert_eq!(read(r#"{"in_flight":8}"#).unwrap(), Some(8));
        for wrong in ["{}", r#"{"inflight":8}"#, r#"{"in_flight":-1}"#, r#"{"in_flight":"8"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
