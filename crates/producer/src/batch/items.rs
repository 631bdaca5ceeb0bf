//! The items of a body, one after the other, as they come.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use holdfast_runtime::serve::BodyDeadline;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::cut::{Cut, Cutter, Fault, Spot};
use crate::body::{Said, take, too_large, unfinished};
use crate::problem::{Kind, Problem};

/// An item that came whole.
#[derive(Debug)]
pub(super) struct Came {
    /// Where it begins.
    pub(super) spot: Spot,
    /// Its text and its share of the memory for bodies, or why it was not kept.
    pub(super) text: Result<(Bytes, OwnedSemaphorePermit), Problem>,
}

/// The items of a body. At most one that has not come whole is in memory, beside what the connection has read.
pub(super) struct Items {
    body: Body,
    deadline: Option<BodyDeadline>,
    cutter: Cutter,
    /// What was read and not looked at.
    input: Bytes,
    is_over: bool,
    longest: usize,
    memory: Arc<Semaphore>,
    /// For what the cutter holds.
    share: Option<OwnedSemaphorePermit>,
    /// Why the item that is coming will not be kept.
    refused: Option<Problem>,
}

impl Items {
    /// Items of at most `longest` bytes each.
    pub(super) fn new(
        (body, said, deadline): (Body, Said, Option<BodyDeadline>),
        longest: usize,
        memory: Arc<Semaphore>,
    ) -> Self {
        let cutter = match said {
            Said::Lines => Cutter::lines(longest),
            Said::Json => Cutter::array_or_lines(longest),
        };
        let (input, is_over, share, refused) = (Bytes::new(), false, None, None);
        Self { body, deadline, cutter, input, is_over, longest, memory, share, refused }
    }

    /// The next item; none behind the last. A problem says that nothing more can be read. Nothing is lost if this is
    /// dropped and called again.
    pub(super) async fn next(&mut self) -> Option<Result<Came, Problem>> {
        loop {
            if let Some(cut) = self.cutter.cut(&mut self.input) {
                return Some(cut.map(|cut| self.came(cut)).map_err(|fault| self.broken(fault)));
            }
            self.hold();
            if self.is_over {
                let last = self.cutter.finish()?;
                return Some(last.map(|cut| self.came(cut)).map_err(|fault| self.broken(fault)));
            }
            match self.body.frame().await {
                None => self.is_over = true,
                Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                Some(Err(err)) => return Some(Err(unfinished(err))),
            }
        }
    }

    /// Nothing was read for a while, and now it is again: how long we took is no time of the body's.
    pub(super) fn go_on(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.begin_anew();
        }
    }

    fn came(&mut self, Cut { spot, text }: Cut) -> Came {
        // Each item may take as long as a body of one.
        self.go_on();
        let share = self.share.take();
        let kept = match (self.refused.take(), text) {
            (Some(refused), _) => Err(refused),
            (None, None) => Err(too_large(self.longest)),
            (None, Some(text)) => share_of(&self.memory, share, text.len()).map(|it| (text, it)),
        };
        Came { spot, text: kept }
    }

    /// Takes memory for what the cutter holds, or has it let go.
    fn hold(&mut self) {
        let held = self.cutter.held();
        match share_of(&self.memory, self.share.take(), held) {
            Ok(share) => self.share = Some(share),
            Err(problem) => {
                self.cutter.let_go();
                self.refused = Some(problem);
            }
        }
    }

    fn broken(&mut self, fault: Fault) -> Problem {
        // What stands behind is not read.
        (self.input, self.is_over) = (Bytes::new(), true);
        Problem::new(Kind::InvalidBatch, fault.to_string())
    }
}

/// A share of so many bytes, from one that may hold fewer, or more.
fn share_of(
    memory: &Arc<Semaphore>,
    share: Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<OwnedSemaphorePermit, Problem> {
    let mut share = share.map_or_else(|| take(memory, 0), Ok)?;
    match bytes.checked_sub(share.num_permits()) {
        Some(more) => share.merge(take(memory, more)?),
        // White space was cut off.
        None => drop(share.split(share.num_permits() - bytes)),
    }
    Ok(share)
}
