use crate::{
    reply::{Part, Reply, answer},
    rules::Rule,
    state::{Handle, Home, Ms, Named, Names, State},
};

impl State {
    /// Forgets what ended long ago, and the rows of sessions that did.
    pub(super) fn sweep(&mut self, limit: usize, age: Ms, now: Ms) -> Reply {
        let mut reply = Reply::default();
        for home in [Home::Finished, Home::Dead] {
            let mut over = self.line(home);
            over.retain(|(till, _)| *till <= now);
            for (_, handle) in over.into_iter().take(limit) {
                let answer = self.forget(handle);
                reply.say(answer);
            }
        }
        // The script looks at eight rows a call, drawn at random; a walk has fewer, so that it sees them all.
        self.sessions.retain(|_, row| row.seen + age >= now);
        reply
    }

    /// Every field of that request goes, unless a newer generation lives under its key.
    fn forget(&mut self, handle: Handle) -> Vec<Part> {
        let ticket = self.ticket(handle);
        let lost = !self.tickets.contains_key(&handle.id);
        self.homes.remove(&handle);
        let names = match ticket {
            _ if lost => Names::Lost,
            Named::Other if self.keeps(Rule::SweepGeneration) => return answer!["dropped", handle],
            Named::This(ticket) => ticket.names,
            Named::Other | Named::Unreadable => Names::Lost,
        };
        let record = self.records.remove(&handle.id).map_or(0, |record| record.size());
        let freed = self.forget_request(handle.id) + record;
        self.hold(names, 0, -freed);
        self.tickets.remove(&handle.id);
        answer!["swept", handle]
    }
}
