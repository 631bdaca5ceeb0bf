//! What became of something, by the word of its label.

/// How much of what was asked a claim brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// A request for every slot.
    Full,
    /// Fewer.
    Some,
    /// None.
    Empty,
}

impl ClaimOutcome {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Some => "some",
            Self::Empty => "empty",
        }
    }
}

/// What became of a span that was to be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanOutcome {
    /// The collector has it.
    Exported,
    /// Too many waited.
    Dropped,
    /// The collector did not want it.
    Refused,
    /// The collector could not be reached, or not in time.
    Lost,
}

impl SpanOutcome {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Exported => "exported",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}

/// What the settle script said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The answer is published.
    Ack,
    /// Waits for its next try.
    Retry,
    /// Handed back.
    Release,
    /// A dead letter.
    Bury,
    /// A cancel or the deadline was met instead.
    Ended,
    /// A repeat.
    Already,
    /// The lease was lost.
    Fenced,
    /// The generation is kept no more.
    Gone,
}

impl SettleOutcome {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Retry => "retry",
            Self::Release => "release",
            Self::Bury => "bury",
            Self::Ended => "ended",
            Self::Already => "already",
            Self::Fenced => "fenced",
            Self::Gone => "gone",
        }
    }
}
