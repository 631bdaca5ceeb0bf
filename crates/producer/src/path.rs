//! What a path names: a queue, and a request in it. The grammar is the same on every route.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use holdfast_core::model::{QueueName, RequestId};

use crate::app::{App, Named, Queue};
use crate::id::{ID_RULE, NAME_RULE, is_id, is_name};
use crate::problem::{Kind, Problem};
use crate::who::Caller;

/// The queue that the path names.
#[derive(Debug)]
pub(crate) struct InQueue(pub(crate) Arc<Queue>);

/// The request that the path names, among those of the caller's tenant.
#[derive(Debug)]
pub(crate) struct OfRequest(pub(crate) Named);

impl FromRequestParts<Arc<App>> for InQueue {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let params = params(parts).await?;
        queue(app, &params).map(Self)
    }
}

impl FromRequestParts<Arc<App>> for OfRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        let params = params(parts).await?;
        let queue = queue(app, &params)?;
        let id = read_id(param(&params, "id"))?;
        Ok(Self(Named::new(queue, &caller.tenant, id)))
    }
}

/// The parts of the path, percent-decoded once.
async fn params(parts: &mut Parts) -> Result<RawPathParams, Problem> {
    RawPathParams::from_request_parts(parts, &()).await.map_err(|_| {
        Problem::new(Kind::InvalidId, "the path is not UTF-8 once it is percent-decoded")
    })
}

/// A part of the path; what the route does not have is empty, and breaks every rule.
fn param<'a>(params: &'a RawPathParams, name: &str) -> &'a str {
    params.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

/// The names of queue and request that a path says, by the rules for both.
pub(crate) async fn names(parts: &mut Parts) -> Result<(String, RequestId), Problem> {
    let params = params(parts).await?;
    let queue = read_name(param(&params, "queue"))?.to_owned();
    Ok((queue, read_id(param(&params, "id"))?))
}

fn queue(app: &App, params: &RawPathParams) -> Result<Arc<Queue>, Problem> {
    let name = read_name(param(params, "queue"))?;
    let known = app.queues.iter().find(|(known, _)| known.as_str() == name);
    known.map(|(_, queue)| Arc::clone(queue)).ok_or_else(|| undeclared(app, name))
}

/// How many queues are named where one is not known.
const NAMED: usize = 8;

/// No queue of that name is declared. A name has a form in which nothing else can stand, so this one is told; and which
/// there are, every caller may ask.
fn undeclared(app: &App, name: &str) -> Problem {
    let mut known: Vec<&str> = app.queues.keys().take(NAMED).map(QueueName::as_str).collect();
    if app.queues.len() > NAMED {
        known.push("…");
    }
    let detail = format!(
        "no queue {name} is declared in the settings of this service; there is {} (GET /v1/queues)",
        known.join(", ")
    );
    Problem::new(Kind::UnknownQueue, detail).with("queue", name)
}

fn read_name(text: &str) -> Result<&str, Problem> {
    if is_name(text) {
        return Ok(text);
    }
    Err(Problem::new(Kind::InvalidName, format!("a queue's name is {NAME_RULE}")))
}

/// Reads an id, wherever it stands.
pub(crate) fn read_id(text: &str) -> Result<RequestId, Problem> {
    let refused = || Problem::new(Kind::InvalidId, format!("an id is {ID_RULE}"));
    if !is_id(text) {
        return Err(refused());
    }
    RequestId::try_from(text).map_err(|_| refused())
}
