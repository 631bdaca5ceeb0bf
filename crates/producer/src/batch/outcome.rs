//! What a caller is told of each item.

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::durable::Safety;
use crate::problem::{Problem, Told};
use crate::requests::{Admitted, code};

/// Which item of a batch it is.
#[derive(Clone, Debug)]
pub(super) struct Which {
    /// Counted from 0; blank lines are not counted.
    pub(super) index: u64,
    /// The line on which it begins, from 1; none if it was not read.
    pub(super) line: Option<usize>,
    /// Its id, where that could be read.
    pub(super) id: Option<String>,
    /// The first item of the batch that has the same id.
    pub(super) same_id_as: Option<u64>,
}

/// What became of an item.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) which: Which,
    pub(super) told: Result<Admitted, Problem>,
    /// Whether neither it nor anything behind it was read.
    pub(super) unread: bool,
}

/// What is told of one item.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Outcome")]
pub(crate) struct Line<'a> {
    /// Which item, from 0.
    index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// What the item alone would have been answered with.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<Safety>,
    #[serde(skip_serializing_if = "Option::is_none")]
    same_id_as: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unread: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Told<'a>>,
}

impl Outcome {
    /// Adds its line to others.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let Which { index, line, id, same_id_as } = &self.which;
        let line = Line {
            index: *index,
            line: *line,
            status: self.status().as_u16(),
            id: id.as_deref(),
            generation: self.told.as_ref().ok().map(|it| it.seen.ticket.generation.to_string()),
            state: self.told.as_ref().ok().map(|it| it.seen.state()),
            replayed: self.told.as_ref().is_ok_and(|it| it.replayed),
            durability: self.told.as_ref().ok().and_then(|it| it.seen.safety()),
            same_id_as: *same_id_as,
            retry_after: self.told.as_ref().err().and_then(Problem::retry_after),
            unread: self.unread,
            problem: self.told.as_ref().err().map(|it| it.told(self.status())),
        };
        // Strings and numbers only: writing them to memory does not fail.
        let _ = serde_json::to_writer(&mut *to, &line);
        to.push(b'\n');
    }

    /// What the same item would be answered with alone.
    fn status(&self) -> StatusCode {
        match &self.told {
            Ok(Admitted { seen, replayed: true, .. }) => code(StatusCode::OK, seen),
            Ok(_) => StatusCode::ACCEPTED,
            Err(problem) => problem.kind().status(),
        }
    }
}
