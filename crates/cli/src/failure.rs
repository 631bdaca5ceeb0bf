//! How a command fails: what is told, and how the process exits.

use std::io;

use holdfast_runtime::{Problems, unread};

use crate::api::NoAnswer;
use crate::escape;
use crate::notes::Notes;
use crate::reply::Refusal;

/// How a command fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Whoever read the output has left: nothing more to say.
    #[error("nobody reads the output")]
    Closed,
    /// Everything was told when it happened.
    #[error("failed, as was told")]
    Told,
    /// The command line can't be used.
    #[error("{0}")]
    Usage(String),
    /// The settings can't be used.
    #[error("unusable settings: {0}")]
    Settings(Problems),
    /// The process lacks something of the system.
    #[error("can't start: {0}")]
    Runtime(io::ErrorKind),
    /// Output is lost.
    #[error("can't write to {place}: {}", unwritten(*.kind))]
    Write {
        /// Where.
        place: String,
        /// Why.
        kind: io::ErrorKind,
    },
    /// Input is not there.
    #[error("can't read {place}: {}", unread::in_words(*.kind))]
    Read {
        /// Where.
        place: String,
        /// Why.
        kind: io::ErrorKind,
    },
    /// Input is there, and can't be used.
    #[error("{place}: {rule}")]
    Input {
        /// Where.
        place: String,
        /// What would be right.
        rule: String,
    },
    /// The API was not reached.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The API said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request has not ended.
    #[error("not ended yet: {state}")]
    NotEnded {
        /// Where it is.
        state: String,
    },
    /// Something that the API said makes no sense.
    #[error("{0}")]
    Nonsense(&'static str),
    /// Redis said no, or nothing.
    #[error("redis at {place}: {fault}")]
    Store {
        /// Its address, without its password.
        place: String,
        /// What went wrong.
        fault: String,
    },
    /// Something that changes much was asked for, and not confirmed.
    #[error("{0}")]
    Unconfirmed(String),
    /// Something stopped half-way.
    #[error("stopped: {reason}; --cursor {cursor} goes on behind what is done")]
    Stopped {
        /// Why.
        reason: String,
        /// Where to go on.
        cursor: String,
    },
    /// A look found something at fault, and told it.
    #[error("something is at fault, as was told")]
    Unwell,
    /// There is no such thing.
    #[error("{0}")]
    Unknown(String),
}

/// The kind of an error as people say it.
fn unwritten(kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::NotFound => "no such folder".to_owned(),
        kind => kind.to_string(),
    }
}

impl Failure {
    /// A write that failed.
    pub(crate) fn of_write(place: impl ToString, err: &io::Error) -> Self {
        match err.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            kind => Self::Write { place: place.to_string(), kind },
        }
    }

    /// A read that failed.
    pub(crate) fn of_read(place: impl ToString, err: &io::Error) -> Self {
        Self::Read { place: place.to_string(), kind: err.kind() }
    }

    /// How the process exits.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Closed => 141,
            Self::Usage(_) => 2,
            Self::Settings(_) => 64,
            Self::Unwell => 3,
            _ => 1,
        }
    }

    /// Tells it, unless there is nothing to tell.
    pub(crate) fn tell(&self, notes: &Notes) {
        match self {
            Self::Closed | Self::Told | Self::Unwell => {}
            Self::Usage(text) => {
                escape::without_credentials(text).lines().for_each(|line| notes.say(line));
            }
            Self::Settings(problems) => {
                problems.iter().for_each(|problem| notes.say(format!("holdfastctl: {problem}")));
            }
            other => notes.say(format!("holdfastctl: {other}")),
        }
    }
}
