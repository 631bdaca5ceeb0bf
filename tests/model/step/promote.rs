use crate::{
    reply::{Reply, answer},
    state::{Handle, Home, Ms, Named, Spot, State},
};

impl State {
    /// Lets what is due be claimed.
    pub(super) fn promote(&mut self, limit: usize, now: Ms) -> Reply {
        let mut reply = Reply::default();
        let (_, moved) = self.promote_due(limit, now);
        if !moved.is_empty() {
            self.ring();
        }
        moved.into_iter().for_each(|handle| reply.say(answer!["moved", handle]));
        reply
    }

    /// Lets what an operator names be claimed before it is due, if it is still due when the operator saw it to be.
    pub(super) fn promote_named(&mut self, named: &[(Handle, Ms)]) -> Reply {
        let (mut reply, mut any) = (Reply::default(), false);
        for (handle, seen) in named {
            let as_seen = Spot { home: Home::Delayed, till: *seen };
            let there = self.homes.get(handle) == Some(&as_seen);
            reply.say(match self.ticket(*handle) {
                Named::This(ticket) if there => {
                    self.make_claimable(*handle, &ticket);
                    any = true;
                    answer!["moved", *handle]
                }
                _ => answer!["changed", *handle],
            });
        }
        if any {
            self.ring();
        }
        reply
    }
}
