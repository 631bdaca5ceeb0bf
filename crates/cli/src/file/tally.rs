//! What became of the lines, counted.

use std::fmt;

use holdfast_core::counted;
use serde::Serialize;

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    /// The file's name: every id starts with it.
    pub(super) file: String,
    /// Lines that hold something.
    pub(super) requests: u64,
    /// New requests.
    pub(super) accepted: u64,
    /// Requests that were there before.
    pub(super) resumed: u64,
    /// Of these, those that were submitted with other options, which they keep.
    pub(super) kept_other_options: u64,
    /// Lines that were not taken.
    pub(super) refused: u64,
    /// Requests that ended with a 2xx.
    pub(super) answered: u64,
    /// Requests that ended otherwise.
    pub(super) failed: u64,
}

impl Tally {
    /// Whether no line failed.
    pub(super) fn is_clean(&self) -> bool {
        self.refused == 0 && self.failed == 0
    }

    /// Lines whose submit is answered.
    pub(super) fn submitted(&self) -> u64 {
        self.accepted + self.resumed + self.refused
    }

    /// Lines of which nothing more is to come.
    pub(super) fn over(&self) -> u64 {
        self.refused + self.answered + self.failed
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, requests, accepted, resumed, kept_other_options, refused, .. } = self;
        let requests = counted(*requests, "request", "requests");
        write!(f, "{requests} {file}.LINE: {accepted} accepted, {resumed} there before")?;
        if *kept_other_options > 0 {
            write!(f, " ({kept_other_options} with other options, which they keep)")?;
        }
        write!(f, ", {refused} refused; {} answered, {} failed", self.answered, self.failed)
    }
}
