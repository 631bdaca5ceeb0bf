//! What a request takes of memory: in Redis in each of its states, and in the worker that calls for it, beside a client that
//! does nothing but call.
//!
//! Always the slope between sizes, so that what is there anyway is not counted. The sizes in Redis are doubles of each other:
//! its tables are then filled alike.

pub(crate) mod bare;
mod calls;
mod stored;

use crate::Effort;
use crate::machine::{self, Machine};
use crate::report::Report;
use crate::server;

/// All rows of the part.
pub(crate) async fn report(effort: Effort) -> Report {
    let before = machine::load();
    let server = server::start(|_| {}).await;
    let machine = Machine::look(&server).await;
    drop(server);
    let mut rows = stored::rows(effort).await;
    rows.extend(calls::rows(effort).await);
    Report::new("memory", machine, [before, machine::load()], rows)
}
