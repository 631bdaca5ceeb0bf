use crate::{
    reply::{Reply, answer},
    rules::Rule,
    state::{Handle, Home, Ms, Named, State},
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
            let any_due = !self.keeps(Rule::DueSeen);
            let there = self
                .homes
                .get(handle)
                .is_some_and(|spot| spot.home == Home::Delayed && (spot.till == *seen || any_due));
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
