//! What becomes of a command on its way, and of a call to the gateway.

use std::collections::BTreeSet;

use crate::dice::Dice;

/// What a play is about: which faults come often in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Claims are lost, repeated, late.
    Claimer,
    /// Renewals are; leases are lost; the process stalls.
    Renewer,
    /// Settles are, and groups that fail as a whole.
    Settler,
    /// A worker is told to stop in the midst of it.
    Drain,
}

/// What becomes of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// How long it is under way, in ms.
    pub(crate) before: u64,
    pub(crate) end: End,
    /// How long its answer is, in ms.
    pub(crate) after: u64,
    /// Whether it is run although its client has hung up meanwhile.
    pub(crate) runs_on: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// It is run and answered.
    #[default]
    Answered,
    /// The connection breaks before it arrives.
    Lost,
    /// The connection breaks, and it arrives all the same, so many ms later.
    Late(u64),
    /// It is run, and the connection breaks before its answer arrives.
    Unanswered,
    /// Redis refuses it, because it can't work now.
    Refused,
}

/// What the gateway does with a call, after so many ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) after: u64,
    pub(crate) with: With,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    Status(u64),
    /// The connection is closed instead.
    Reset,
}

/// The faults of a play. What is drawn depends on who asks what for the how-maniest time, and on nothing else: so one
/// seed gives one schedule, however the roles draw their own pauses.
#[derive(Clone)]
pub(crate) struct Faults {
    pub(crate) seed: u64,
    pub(crate) family: Family,
    /// Nothing goes wrong at all.
    pub(crate) calm: bool,
    /// Where there are some: of all that would go wrong on the way or at the gateway, these alone do.
    pub(crate) only: Option<BTreeSet<Fault>>,
}

/// What goes wrong: the how-maniest command of whom, or call of the gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    pub(crate) of: String,
    pub(crate) count: u64,
}

impl Faults {
    pub(crate) fn dice(&self, what: &str, count: u64) -> Dice {
        let mut mixed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ count;
        for byte in what.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Dice::new(mixed)
    }

    /// Whether the server is a new one, that knows no script.
    pub(crate) fn is_new(&self) -> bool {
        self.dice("loaded", 0).one_in(2)
    }

    /// What becomes of a command, its client's and its name together, like `w0 claim`.
    pub(crate) fn of_command(&self, name: &str, fault: &Fault) -> Fate {
        let mut dice = self.dice(&fault.of, fault.count);
        // Often one in three of what the play is about, else one in forty.
        if self.calm || !dice.one_in(if self.is_about(name) { 3 } else { 40 }) || self.spares(fault)
        {
            return Fate::default();
        }
        let pause = |dice: &mut Dice| dice.of(&[0, 0, 40, 400, 1_500, 2_500, 6_000]);
        let end = match dice.below(12) {
            0..3 => End::Answered,
            3..5 => End::Lost,
            5..7 => End::Late(dice.of(&[300, 3_000, 12_000, 20_000, 40_000])),
            7..11 => End::Unanswered,
            _ => End::Refused,
        };
        Fate { before: pause(&mut dice), end, after: pause(&mut dice), runs_on: dice.one_in(2) }
    }

    fn spares(&self, fault: &Fault) -> bool {
        self.only.as_ref().is_some_and(|only| !only.contains(fault))
    }

    fn is_about(&self, name: &str) -> bool {
        match self.family {
            Family::Claimer => ["claim", "BLPOP", "HMGET"].contains(&name),
            Family::Renewer => ["renew", "HMGET"].contains(&name),
            Family::Settler => name == "settle",
            Family::Drain => ["claim", "settle", "BLPOP"].contains(&name),
        }
    }

    /// What the gateway does with a call.
    pub(crate) fn of_call(&self, fault: &Fault, now: u64) -> Service {
        let mut dice = self.dice(&fault.of, fault.count);
        let after = match self.family {
            // Many at one moment: what ends together travels together.
            Family::Settler => 800 - now % 800,
            Family::Renewer => dice.of(&[100, 4_000, 9_000, 16_000, 30_000]),
            Family::Drain => dice.of(&[0, 20, 700, 3_000, 9_000, 16_000]),
            Family::Claimer => dice.of(&[0, 20, 700, 3_000, 9_000]),
        };
        let is_well = self.calm || self.spares(fault);
        let with = if is_well { With::Status(200) } else { dice.weighed(&ANSWERS) };
        Service { after, with }
    }
}

const ANSWERS: [(usize, With); 5] = [
    (12, With::Status(200)),
    (1, With::Status(404)),
    (1, With::Status(429)),
    (1, With::Status(503)),
    (1, With::Reset),
];
