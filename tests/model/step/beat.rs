use crate::{
    rules::Rule,
    state::{Ms, State},
};

impl State {
    /// An outage is nobody's fault: whoever finds the beat older than half the longest lease first forgives what ends
    /// until half a lease from now. A clock that went back left a beat or a pardon in the future: both are lowered.
    pub(super) fn watch_beat(&mut self, now: Ms) {
        let half = self.meta.longest_lease.unwrap_or(0) / 2;
        let beat = self.meta.beat.replace(now);
        let outage =
            self.keeps(Rule::Outage) && half > 0 && beat.is_some_and(|beat| beat + half < now);
        let from_the_future = self.meta.forgiven_to.is_some_and(|till| till > now + half);
        if outage || from_the_future {
            self.meta.forgiven_to = Some(now + half);
        }
    }
}
