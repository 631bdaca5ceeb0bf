use crate::{
    names,
    reply::{Part, Reply, answer},
    state::{Id, Paper, State},
};

impl State {
    /// Says all that is kept under keys. It only reads.
    pub(super) fn audit(&self, ids: &[Id]) -> Reply {
        let mut reply = Reply::default();
        for id in ids {
            let request = self.requests.get(id).map_or(0, |body| names::request(*id, *body).len());
            let result = self.records.get(id).map_or(0, |record| record.pack().len());
            let lengths = [Part::from(request as u64), Part::from(result as u64)];
            let mut told = match self.tickets.get(id) {
                None if request + result == 0 => {
                    reply.say(answer!["none"]);
                    continue;
                }
                None => answer!["kept", "lost", ""],
                Some(Paper::Broken(_)) => answer!["kept", "broken", ""],
                Some(Paper::Whole(ticket)) => answer!["kept", "whole", ticket.clone()],
            };
            told.extend(lengths);
            let handle = self.readable(*id).map(|ticket| ticket.handle(*id));
            if let Some(spot) = handle.and_then(|handle| self.homes.get(&handle)) {
                told.extend([Part::from(spot.home.word()), Part::Digits(spot.till)]);
            }
            reply.say(told);
        }
        reply
    }
}
