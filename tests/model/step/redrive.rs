use crate::{
    reply::{Part, Reply, answer},
    rules::Rule,
    state::{Generation, Handle, Home, Ms, Named, Spot, State, Ticket},
};

impl State {
    /// Starts dead requests again, each under a new generation.
    pub(super) fn redrive(&mut self, rows: &[(Handle, Generation, Ms)], now: Ms) -> Reply {
        let mut reply = Reply::default();
        let before = self.meta.seq;
        for (dead, generation, deadline) in rows {
            let answer = self.redrive_one(*dead, *generation, *deadline, now);
            reply.say(answer);
        }
        if self.meta.seq > before {
            self.ring();
        }
        reply
    }

    fn redrive_one(
        &mut self,
        dead: Handle,
        generation: Generation,
        deadline: Ms,
        now: Ms,
    ) -> Vec<Part> {
        let kept = self.readable(dead.id).filter(|ticket| ticket.generation == generation);
        if let Some(ticket) = kept {
            return answer!["already", ticket.clone()];
        }
        let dead = self.meant(dead, Rule::RedriveGeneration);
        let any = !self.keeps(Rule::RedriveGeneration);
        let is_dead = any || self.homes.get(&dead).is_some_and(|spot| spot.home == Home::Dead);
        let Named::This(old) = self.ticket(dead) else { return answer!["gone"] };
        if !is_dead {
            return answer!["gone"];
        }
        if !self.requests.contains_key(&dead.id) {
            return answer!["bodyless"];
        }
        if self.policy("capacity").is_some_and(|capacity| self.live() >= capacity) {
            return answer!["full"];
        }
        // Without its ticket, nobody knows how long it had.
        let unknown = old.deadline == 0;
        if deadline == 0 && unknown || deadline != 0 && deadline <= now {
            return answer!["late"];
        }
        let deadline =
            if deadline == 0 { now + (old.deadline - old.submitted_at) } else { deadline };
        answer!["redriven", self.start_again(dead, old, generation, deadline, now)]
    }

    /// The old record gives way; the ticket keeps how the last run ended.
    fn start_again(
        &mut self,
        dead: Handle,
        old: Ticket,
        generation: Generation,
        deadline: Ms,
        now: Ms,
    ) -> Ticket {
        let record = self.records.remove(&dead.id);
        self.hold(old.names, 1, -record.as_ref().map_or(0, |record| record.size()));
        self.meta.seq += 1;
        let kept = Ticket { fence: None, settled: None, ..old.clone() };
        let handle = Handle { sequence: self.meta.seq, generation, id: dead.id };
        let cleared = self.keeps(Rule::RedriveClears);
        let blank = if cleared { Ticket::blank(handle) } else { kept };
        let fresh = Ticket {
            sequence: handle.sequence,
            generation,
            body: old.body,
            deadline,
            submitted_at: now,
            previous: Some((
                dead.generation,
                record.map(|record| (record.outcome, record.ended_at)),
            )),
            names: old.names,
            tail: old.tail,
            ..blank
        };
        self.homes.remove(&dead);
        let spot = Spot { home: Home::Pending, till: deadline };
        self.homes.insert(fresh.handle(dead.id), spot);
        self.keep(dead, &fresh);
        fresh
    }
}
