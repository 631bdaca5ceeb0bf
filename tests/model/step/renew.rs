use super::claim::Lease;
use crate::{
    reply::{Reply, answer},
    rules::Rule,
    state::{Home, Ms, Named, Spot, State},
};

impl State {
    /// Prolongs leases that are still held, at most to deadline + lease.
    pub(super) fn renew(&mut self, length: Ms, leases: &[Lease], now: Ms) -> Reply {
        self.watch_beat(now);
        let mut reply = Reply::default();
        for (fence, handle) in leases {
            let owner = match self.homes.get(handle).map(|spot| spot.home) {
                Some(Home::Leased(owner)) if !self.keeps(Rule::RenewFence) => owner,
                _ => *fence,
            };
            let till = match self.ticket(*handle) {
                Named::This(ticket) if self.holds(owner, *handle) => {
                    let capped = self.keeps(Rule::RenewalCap);
                    let from = if capped { now.min(ticket.deadline) } else { now };
                    Some((from + length, ticket.asked))
                }
                _ => None,
            };
            reply.say(match till {
                Some((till, asked)) if till > now => {
                    self.homes.insert(*handle, Spot { home: Home::Leased(owner), till });
                    answer![if asked { "cancel" } else { "held" }, till - now]
                }
                _ => answer!["lost"],
            });
        }
        reply
    }
}
