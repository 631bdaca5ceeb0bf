//! What may go wrong with one call.

use crate::dice::Dice;

/// What happens to a call on its way, or to the server that is to run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// It never reaches the server.
    LostRequest,
    /// It runs; its caller never hears of it.
    LostReply,
    /// It is kept on the way, and runs after its caller gave up and its repeat was answered.
    Late,
    /// The connection is cut under it.
    Cut,
    /// The server has no memory left.
    Full,
    /// Under one of its keys, counted in the order of its header, lies a value of another type: it is stopped in its midst.
    Mistyped(usize),
    /// The user that calls lacks the right to one of the commands that write.
    Denied(usize),
    /// The server has forgotten the scripts.
    Forgotten,
}

/// The commands by which scripts write.
const WRITES: [&str; 7] = ["del", "hdel", "hincrby", "hset", "rpush", "zadd", "zrem"];

impl Fault {
    /// Each of them.
    pub(crate) const ALL: [Self; 9] = [
        Self::None,
        Self::LostRequest,
        Self::LostReply,
        Self::Late,
        Self::Cut,
        Self::Full,
        Self::Mistyped(0),
        Self::Denied(0),
        Self::Forgotten,
    ];

    /// What went wrong, in a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::None => "no fault",
            Self::LostRequest => "request lost",
            Self::LostReply => "reply lost",
            Self::Late => "run late",
            Self::Cut => "connection cut",
            Self::Full => "out of memory",
            Self::Mistyped(_) => "key of another type",
            Self::Denied(_) => "right denied",
            Self::Forgotten => "scripts forgotten",
        }
    }

    /// One of them, mostly none; `mistyped`: another type, or a right that lacks, is what the walk is about.
    pub(crate) fn draw(dice: &mut Dice, mistyped: bool) -> Self {
        if mistyped && dice.one_in(2) {
            let number = dice.below(64);
            return if number < 48 { Self::Mistyped(number) } else { Self::Denied(number) };
        }
        if !dice.one_in(9) {
            return Self::None;
        }
        let number = dice.below(64);
        dice.weighed(&[
            (4, Self::LostRequest),
            (8, Self::LostReply),
            (6, Self::Late),
            (3, Self::Cut),
            (8, Self::Full),
            (8, Self::Mistyped(number)),
            (4, Self::Denied(number)),
            (1, Self::Forgotten),
        ])
    }

    /// The command that is denied, as Redis tells it.
    pub(crate) fn denied(self) -> Option<&'static str> {
        match self {
            Self::Denied(number) => Some(WRITES[number % WRITES.len()]),
            _ => None,
        }
    }

    /// Whether its caller, who heard nothing, sends the call again.
    pub(crate) fn is_unanswered(self) -> bool {
        matches!(self, Self::LostRequest | Self::LostReply | Self::Late | Self::Cut)
    }
}
