//! `GET …/requests`: the caller's own requests, page by page.
//!
//! A page goes through the homes in the order in which requests pass them, each shard by shard, and looks at a bounded
//! number of members; the cursor says where the next one goes on.

mod asked;
mod cursor;

use std::sync::Arc;

use axum::Json;
use axum::extract::{self, RawQuery};
use holdfast_core::Chain;
use holdfast_core::inspect::{self, Part};
use holdfast_core::model::{Generation, Home, Key};
use holdfast_core::script::{Found, MAX_ITEMS, Read};
use schemars::JsonSchema;
use serde::Serialize;
use tracing::warn;

pub(crate) use self::asked::State;
pub(crate) use self::cursor::Cursor;

use self::asked::Asked;
use crate::app::{App, Named, Queue};
use crate::openapi::{Answer, Operation, Parameter, Shape};
use crate::path::InQueue;
use crate::problem::Problem;
use crate::status::{Seen, Status};
use crate::store::{Lost, Unread, patiently};
use crate::who::Caller;

/// The most parts of homes that one page looks into: most of them may be empty.
const PARTS: usize = 12;

/// A page of a list.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Page {
    requests: Vec<Status>,
    /// Where the next page goes on; none behind the last.
    cursor: Option<String>,
}

/// The entry of [`list`].
pub(crate) const LIST: Operation = Operation {
    id: "listRequests",
    summary: "The caller's own requests, page by page",
    parameters: &[Parameter::State, Parameter::Cursor, Parameter::Limit],
    body: &[],
    answers: &[Answer::json(200, "A page", Shape::Page)],
    refusals: &Unread::KINDS,
};

/// `GET …/requests`: a page of the caller's requests.
pub(crate) async fn list(
    extract::State(app): extract::State<Arc<App>>,
    InQueue(queue): InQueue,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Json<Page>, Problem> {
    let Asked { state, cursor, limit } = Asked::parse(query.as_deref())?;
    let mut at = cursor.map_or_else(|| Some(Cursor::start(state)), Some);
    let mut requests = Vec::new();
    let mut looked = 0;
    for _ in 0..PARTS {
        let Some(here) = at.as_mut() else { break };
        if looked == MAX_ITEMS || requests.len() == limit {
            break;
        }
        let part = here.part(&app, &queue, MAX_ITEMS - looked).await?;
        looked += part.members.len();
        let found = read(&app, &queue, (here.shard(), &part)).await?;
        let mut is_whole = true;
        for (found, (_, position)) in found.into_iter().zip(part.members) {
            if requests.len() == limit {
                is_whole = false;
                break;
            }
            here.pass(position);
            if let Some(row) = own(&app, &queue, &caller, (state, here.shard(), found)).await {
                requests.push(row);
            }
        }
        if is_whole && !part.more {
            at = at.and_then(|here| here.next(queue.shards.len()));
        }
    }
    Ok(Json(Page { requests, cursor: at.map(|at| at.to_string()) }))
}

impl Cursor {
    /// What comes next, where it stands.
    async fn part(&self, app: &App, queue: &Queue, limit: usize) -> Result<Part, Problem> {
        // A cursor of a time when the queue had more shards leads behind the last one.
        let Some(shard) = queue.shards.get(self.shard()) else {
            return Ok(Part { members: Vec::new(), more: false });
        };
        let place = (&*shard.keys, self.home());
        let call = || inspect::walk(&app.store.redis, place, self.after(), limit);
        let answered =
            patiently(app.store.patience, call).await.map_err(|lost| away(queue, &lost))?;
        Ok(answered.answer)
    }
}

/// What is known of the members of a part, in their order; none where another generation has taken the place.
async fn read(
    app: &App,
    queue: &Queue,
    (shard, part): (usize, &Part),
) -> Result<Vec<Option<(Key, Found)>>, Problem> {
    let handles = || part.members.iter().map(|(handle, _)| *handle);
    let keys: Vec<Key> = handles().flatten().map(|handle| handle.key()).collect();
    let Some(place) = queue.shards.get(shard).filter(|_| !keys.is_empty()) else {
        return Ok(part.members.iter().map(|_| None).collect());
    };
    let read = Read { shard: &place.keys, keys: &keys, whole: 0, tick: false };
    let call = || read.run(&app.store.redis);
    let answered = patiently(app.store.patience, call).await.map_err(|lost| away(queue, &lost))?;
    let mut found = answered.answer.into_iter();
    let same = |found: &Found, generation: Generation| found.ticket.generation == generation;
    Ok(handles()
        .map(|handle| {
            let handle = handle?;
            let found = found.next().flatten()?;
            same(&found, handle.generation()).then(|| (handle.key(), found))
        })
        .collect())
}

/// A row, if it is the caller's, and in the state that is asked for.
async fn own(
    app: &App,
    queue: &Arc<Queue>,
    caller: &Caller,
    (state, shard, found): (Option<State>, usize, Option<(Key, Found)>),
) -> Option<Status> {
    let (key, found) = found?;
    // Whose a request is that lost its names nobody can say.
    let identity = found.ticket.identity.clone().filter(|it| it.tenant == caller.tenant)?;
    let session = found.ticket.fence.and_then(|fence| fence.session());
    let seen = Seen::from(found);
    state.is_none_or(|state| state.word() == seen.state()).then_some(())?;
    let worker = match session.filter(|_| seen.home == Some(Home::Leased)) {
        Some(session) => app.holders.name(&app.store, session).await,
        None => None,
    };
    let named = Named::found(Arc::clone(queue), identity, (key, shard));
    Some(Status::of(&named, &seen).held_by(worker))
}

fn away(queue: &Queue, lost: &Lost) -> Problem {
    let error = lost.error.as_ref().map(|error| Chain(error).to_string());
    warn!(queue = %queue.name, error, "a part of a list was not read");
    lost.unread().problem()
}
