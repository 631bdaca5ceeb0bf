//! The result of a request whose queue asks for more than Redis gives by itself: shown once it cannot be lost.

use std::time::Duration;

use axum::response::Response;
use holdfast_core::model::{Generation, Home};
use holdfast_core::script::Found;
use tokio::time::Instant;

use super::{not_ended, replaced, told};
use crate::app::{App, Named};
use crate::problem::Problem;
use crate::requests::unknown_request;
use crate::status::Seen;
use crate::store::Unread;
use crate::wait;

/// How often a request is looked at anew that moved on meanwhile.
const TRIES: usize = 3;

/// The result, after a wait for the end.
pub(super) async fn after_wait(
    app: &App,
    named: &Named,
    pinned: Option<Generation>,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    let until = Instant::now() + wait.unwrap_or_default();
    let found = app.look(named).await?.ok_or_else(unknown_request)?;
    let generation = pinned.unwrap_or(found.ticket.generation);
    if wait.is_some_and(|wait| !wait.is_zero()) {
        // Looks of a wait show nothing: only what is told at its end must be safe.
        wait::until_over(app, named, generation, until, None).await?;
    }
    of(app, named, generation).await
}

/// What can be told of a generation now: its result once that is safe, else 202 and how safe it is.
///
/// The record is read after its end was found safe: the record of a generation that stays ended does not change.
pub(super) async fn of(
    app: &App,
    named: &Named,
    generation: Generation,
) -> Result<Response, Problem> {
    for _ in 0..TRIES {
        let (found, safety) = app.look_to_tell(named).await?.ok_or_else(unknown_request)?;
        let is_safe = safety.is_none_or(|safety| safety.is_whole());
        let is_it = found.ticket.generation == generation;
        let is_known = is_it || found.ticket.previous.is_some_and(|it| it.generation == generation);
        // Of another one nothing is told, however safe that is; of one that was replaced, its status tells the outcome.
        if !is_known {
            return Err(unknown_request());
        }
        if !is_safe || (is_it && !is_ended(&found)) {
            return Ok(not_ended(named, &Seen::from(found).with_safety(safety)));
        }
        if !is_it {
            return replaced(&found, generation);
        }
        // One that was redriven in between is looked at anew.
        let whole = app.look_whole(named).await?.ok_or_else(unknown_request)?;
        if whole.ticket.generation == generation && whole.record.starts_with(&found.record) {
            return told(named, &whole);
        }
    }
    Err(Unread::Unanswered.problem())
}

fn is_ended(found: &Found) -> bool {
    found.home.is_some_and(Home::is_end)
}
