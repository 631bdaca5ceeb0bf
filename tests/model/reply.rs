//! What a call is answered, and what is told beside it.

use crate::state::{Body, Fence, Generation, Handle, Id, Outcome, Record, Ticket};

/// One part of an answer.
#[derive(Clone, Debug)]
pub enum Part {
    /// A word.
    Word(&'static str),
    /// A number.
    Number(i64),
    /// A number in all its digits, told as text.
    Digits(u64),
    /// A handle.
    Handle(Handle),
    /// A ticket.
    Ticket(Box<Ticket>),
    /// A record, or its first bytes; empty where there is none.
    Record {
        /// The record.
        record: Option<Box<Record>>,
        /// How long it may be to come whole.
        whole: usize,
    },
    /// What was submitted; nothing where it is gone.
    Request(Id, Option<Body>),
    /// The registered value of a queue.
    Queue(u8),
}

/// A whole reply.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The call's arguments are not what they should be.
    pub refused: bool,
    /// What is answered, one answer an item.
    pub answers: Vec<Vec<Part>>,
    /// Told to who waits for an end.
    pub ended: Vec<(Id, Generation)>,
    /// Told to the workers: what is to be stopped.
    pub stop: Vec<(Fence, Handle)>,
}

impl Reply {
    /// A refusal.
    pub fn refused() -> Self {
        Self { refused: true, ..Self::default() }
    }

    /// A reply of one answer.
    pub fn one(answer: Vec<Part>) -> Self {
        Self { answers: vec![answer], ..Self::default() }
    }

    /// The first word of each answer.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let refused = self.refused.then_some("BADARG");
        let first = |answer: &Vec<Part>| match answer.first() {
            Some(Part::Word(word)) => Some(*word),
            _ => None,
        };
        refused.into_iter().chain(self.answers.iter().filter_map(first))
    }

    /// Adds an answer.
    pub fn say(&mut self, answer: Vec<Part>) {
        self.answers.push(answer);
    }
}

impl From<&'static str> for Part {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<u64> for Part {
    fn from(number: u64) -> Self {
        Self::Number(number.cast_signed())
    }
}

impl From<i64> for Part {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Part {
    fn from(yes: bool) -> Self {
        Self::Number(yes.into())
    }
}

impl From<Outcome> for Part {
    fn from(outcome: Outcome) -> Self {
        Self::Number(outcome as i64)
    }
}

impl From<Handle> for Part {
    fn from(handle: Handle) -> Self {
        Self::Handle(handle)
    }
}

impl From<Ticket> for Part {
    fn from(ticket: Ticket) -> Self {
        Self::Ticket(Box::new(ticket))
    }
}

/// An answer of parts.
macro_rules! answer {
    ($($part:expr),+ $(,)?) => {
        vec![$($crate::reply::Part::from($part)),+]
    };
}
pub(crate) use answer;
