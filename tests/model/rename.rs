//! Fences under other names: which one is which means nothing, as long as what was equal stays equal, and of one session
//! what came first comes first.

use crate::state::{Fence, Home, Paper, State};

impl State {
    /// Gives each fence that is kept somewhere the name that it is to have.
    pub fn rename(&mut self, name: &mut impl FnMut(Fence) -> Fence) {
        for (_, spot) in self.homes.iter_mut() {
            if let Home::Leased(fence) = &mut spot.home {
                *fence = name(*fence);
            }
        }
        for (_, paper) in self.tickets.iter_mut() {
            if let Paper::Whole(ticket) = paper {
                ticket.fence = ticket.fence.map(&mut *name);
                ticket.settled = ticket.settled.map(|(fence, word)| (name(fence), word));
            }
        }
        let rows = std::mem::take(&mut self.sessions).into_iter();
        let renamed = rows.map(|(session, mut row)| {
            let Fence { session, call } = name(Fence { session, call: row.call });
            row.call = call;
            (session, row)
        });
        self.sessions = renamed.collect();
        self.meta.suspect = self.meta.suspect.map(|(fence, handle)| (name(fence), handle));
    }
}
