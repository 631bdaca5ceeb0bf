//! The rules that can be taken out of the model, one at a time, to show what each is for.

use crate::state::{Handle, State};

/// One rule of the protocol, as a script keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A claim with a smaller number than the session's last is stale.
    StaleClaims,
    /// A claim's number is recorded also when nothing was leased.
    EmptyClaims,
    /// The repeat of a claim renews what it leased.
    RepeatRenews,
    /// The repeat of a claim gives what is still held, and no more.
    RepeatOfHeld,
    /// A suspect is leased only while no other is.
    SuspectsAlone,
    /// A suspect is leased only to a caller that holds none elsewhere.
    SuspectElsewhere,
    /// A claim ends what is late only under a clock that its caller trusts.
    TrustedClock,
    /// Claims take the earliest deadline first.
    Order,
    /// A lease is renewed by its owner only.
    RenewFence,
    /// Renewals end at deadline + lease.
    RenewalCap,
    /// An attempt is settled by the owner of its lease only.
    SettleFence,
    /// A settle names a generation, not an id.
    SettleGeneration,
    /// The last settle is remembered, so that its repeat is told what happened.
    LastSettle,
    /// What its caller wants stopped is not tried again.
    FlagSettles,
    /// A lease that ran out is counted.
    LapseCount,
    /// Of what lapsed, the flagged is cancelled, whatever else is true of it.
    FlagFirst,
    /// What ended in an outage costs no lapse.
    Outage,
    /// Every call until half a lease after an outage forgives, not only the one that found it.
    OutageForAll,
    /// When the clock went back, no lease lasts longer than the longest from now.
    LowerExpiries,
    /// A kept id is not overwritten.
    IdRule,
    /// A kept id is answered only to who sent the same bytes.
    Digest,
    /// A kept id is answered before anything is refused.
    IdRuleFirst,
    /// A submit that meets an ended generation keeps its record for a while more.
    Guard,
    /// A cancel names a generation, not an id.
    CancelGeneration,
    /// A redrive names a generation, not an id.
    RedriveGeneration,
    /// A redriven request starts without flag and counts.
    RedriveClears,
    /// A retry-now names the due time that was seen.
    DueSeen,
    /// An operator's word that was overtaken changes nothing.
    Versions,
    /// Sweep leaves a newer generation alone.
    SweepGeneration,
}

/// Which rules hold: all but the one that a test takes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    without: Option<Rule>,
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self { without: None };

    /// All but this one.
    pub const fn without(rule: Rule) -> Self {
        Self { without: Some(rule) }
    }
}

impl State {
    /// Whether a rule holds.
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.rules.without != Some(rule)
    }

    /// The handle that a call means: the one it names. Without the rule that it names a generation, whatever is under
    /// its id now.
    pub(crate) fn meant(&self, handle: Handle, rule: Rule) -> Handle {
        let there = self.readable(handle.id).filter(|_| !self.keeps(rule));
        there.map_or(handle, |ticket| ticket.handle(handle.id))
    }
}
