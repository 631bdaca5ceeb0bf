use crate::{
    reply::{Reply, answer},
    state::{Home, Ms, State},
};

/// At how many of the leases that end next a call looks.
const LOOKED_AT: usize = 64;

impl State {
    /// How much is where. It only reads.
    pub(super) fn depth(&self, now: Ms) -> Reply {
        let count = |home| self.line(home).len() as u64;
        let head = self.line(Home::Pending).first().copied();
        let submitted = head.map_or(0, |(_, handle)| match self.readable(handle.id) {
            Some(ticket) => ticket.submitted_at,
            None => 0,
        });
        let leases = self.leases();
        let claimed = leases
            .iter()
            .take(LOOKED_AT)
            .filter_map(|(_, _, handle)| self.readable(handle.id)?.claimed_at);
        let limit = self.meta.overrides.get("limit").and_then(|limit| limit.total);
        Reply::one(answer![
            "depth",
            count(Home::Pending),
            count(Home::Suspects),
            count(Home::Delayed),
            leases.len() as u64,
            count(Home::Finished),
            count(Home::Dead),
            self.meta.bytes.unwrap_or(0),
            self.overruled("paused").is_some(),
            limit.map_or(-1, u64::cast_signed),
            now,
            head.map_or(0, |(deadline, _)| deadline),
            submitted,
            claimed.min().unwrap_or(0),
        ])
    }
}
