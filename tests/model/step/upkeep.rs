use crate::{
    reply::Reply,
    state::{Handle, Home, Ms, Named, Outcome, Paper, Spot, State, Ticket},
};

/// A doorbell with this many tokens is rung no more.
const ENOUGH_TOKENS: usize = 64;

/// What was done about those that waited past their deadline.
#[derive(Default)]
pub(super) struct Late {
    pub(super) ended: Vec<(Handle, Outcome)>,
    /// How many were looked at.
    pub(super) seen: usize,
    /// Whether there may be more.
    pub(super) more: bool,
}

impl State {
    /// Wakes a worker, unless enough are being woken.
    pub(super) fn ring(&mut self) {
        if self.bell < ENOUGH_TOKENS {
            self.bell += 1;
        }
    }

    /// Keeps a ticket as it is now.
    pub(super) fn keep(&mut self, handle: Handle, ticket: &Ticket) {
        self.tickets.insert(handle.id, Paper::Whole(ticket.clone()));
    }

    /// Makes a generation claimable, at its own place: its ticket says in which of the two sets.
    pub(super) fn make_claimable(&mut self, handle: Handle, ticket: &Ticket) {
        let home = if ticket.is_suspect() { Home::Suspects } else { Home::Pending };
        self.homes.insert(handle, Spot { home, till: ticket.deadline });
    }

    /// Moves what is due to where it is claimed from. Says how many were due, and what was moved.
    pub(super) fn promote_due(&mut self, limit: usize, now: Ms) -> (usize, Vec<Handle>) {
        let mut due = self.line(Home::Delayed);
        due.retain(|(at, _)| *at <= now);
        due.truncate(limit);
        let mut moved = Vec::new();
        for (_, handle) in &due {
            match self.ticket(*handle) {
                Named::This(ticket) => self.make_claimable(*handle, &ticket),
                // The next claim will find that it is unusable, and end it.
                Named::Unreadable => {
                    self.homes.insert(*handle, Spot { home: Home::Pending, till: now + 1 });
                }
                Named::Other => {
                    self.homes.remove(handle);
                    continue;
                }
            }
            moved.push(*handle);
        }
        (due.len(), moved)
    }

    /// Ends what waits past its deadline, at the heads of both sets.
    pub(super) fn end_late(&mut self, limit: usize, now: Ms, reply: &mut Reply) -> Late {
        let mut found = Late::default();
        for home in [Home::Pending, Home::Suspects] {
            let mut late = self.line(home);
            late.retain(|(deadline, _)| *deadline <= now);
            late.truncate(limit);
            found.more |= late.len() == limit;
            found.seen += late.len();
            for (_, handle) in late {
                let (ticket, outcome) = match self.ticket(handle) {
                    Named::This(ticket) => (ticket, Outcome::DeadlineExceeded),
                    Named::Unreadable => (self.mended(handle), Outcome::Unusable),
                    Named::Other => {
                        self.homes.remove(&handle);
                        continue;
                    }
                };
                self.end(handle, ticket, outcome, now, reply);
                found.ended.push((handle, outcome));
            }
        }
        found
    }
}
