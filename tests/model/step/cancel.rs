use crate::{
    reply::{Reply, answer},
    rules::Rule,
    state::{Handle, Home, Ms, Named, Outcome, State, Ticket},
};

impl State {
    /// Ends what waits; flags what runs, and tells its worker. An answer that arrives first is kept.
    pub(super) fn cancel(&mut self, handles: &[Handle], now: Ms) -> Reply {
        let mut reply = Reply::default();
        for handle in handles {
            let handle = &self.meant(*handle, Rule::CancelGeneration);
            let (Named::This(ticket), Some(spot)) = (self.ticket(*handle), self.homes.get(handle))
            else {
                reply.say(answer!["gone"]);
                continue;
            };
            match spot.home {
                Home::Leased(fence) => {
                    self.keep(*handle, &Ticket { asked: true, ..ticket });
                    reply.stop.push((fence, *handle));
                    reply.say(answer!["asked"]);
                }
                Home::Pending | Home::Suspects | Home::Delayed => {
                    self.end(*handle, ticket, Outcome::Cancelled, now, &mut reply);
                    reply.say(answer!["cancelled"]);
                }
                Home::Finished | Home::Dead => reply.say(match self.records.get(&handle.id) {
                    Some(record) => answer!["ended", record.outcome],
                    None => answer!["gone"],
                }),
            }
        }
        reply
    }
}
