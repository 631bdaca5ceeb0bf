use crate::{
    call::Item,
    names,
    reply::{Part, Reply, answer},
    rules::Rule,
    state::{Handle, Home, Ms, Names, Paper, Spot, State, Ticket},
};

impl State {
    /// Takes in requests, each under its id. The id rule comes before every refusal.
    pub(super) fn submit(&mut self, guard: Ms, items: &[Item], now: Ms) -> Reply {
        if items.iter().any(|item| item.not_before >= item.deadline) {
            return Reply::refused();
        }
        let before = self.meta.seq;
        let mut reply = Reply::default();
        for item in items {
            let kept = self.tickets.get(&item.id).cloned();
            let refused = item.deadline <= now && !self.keeps(Rule::IdRuleFirst);
            let kept = kept.filter(|_| self.keeps(Rule::IdRule) && !refused);
            let answer = match kept.filter(|kept| self.is_somewhere(item, kept)) {
                Some(kept) => self.meet(item, kept, now + guard),
                None => self.take_in(item, now),
            };
            reply.say(answer);
        }
        if self.meta.seq > before {
            self.ring();
        }
        reply
    }

    /// A whole ticket in no home is no request; one that can't be read may be any.
    fn is_somewhere(&self, item: &Item, kept: &Paper) -> bool {
        let Paper::Whole(kept) = kept else { return true };
        self.homes.contains_key(&kept.handle(item.id))
    }

    /// A generation of this id is kept: the same bytes are told where it is, others are refused.
    fn meet(&mut self, item: &Item, kept: Paper, keep_till: Ms) -> Vec<Part> {
        let Paper::Whole(kept) = kept else {
            return answer!["reused", "nowhere", draft(item)];
        };
        let handle = kept.handle(item.id);
        let home = self.homes.get(&handle).map_or("nowhere", |spot| spot.home.word());
        let same = kept.body == Some(item.body) || !self.keeps(Rule::Digest);
        let guarded = self.keeps(Rule::Guard);
        // A late copy of this call must find the record that guards it: or what was refused would run after all.
        let ended = self.homes.get_mut(&handle).filter(|spot| spot.home.is_end());
        if let Some(spot) = ended.filter(|_| guarded) {
            spot.till = spot.till.max(keep_till);
        }
        answer![if same { "known" } else { "reused" }, home, kept]
    }

    fn take_in(&mut self, item: &Item, now: Ms) -> Vec<Part> {
        let limits = (self.policy("capacity"), self.policy("capacity_bytes"));
        let (Some(capacity), Some(room)) = limits else { return answer!["undeclared"] };
        let size = names::request_size(item.id, item.body) as i64;
        if item.deadline <= now {
            return answer!["late"];
        }
        if self.live() >= capacity {
            return answer!["full", "requests"];
        }
        if self.meta.bytes.unwrap_or(0) + size > room.cast_signed() {
            return answer!["full", "bytes"];
        }
        if let Some(met) = self.limit_met(item, size, now) {
            return answer!["over", met];
        }
        self.meta.seq += 1;
        let ticket = Ticket { sequence: self.meta.seq, submitted_at: now, ..draft(item) };
        let spot = if item.not_before > now {
            Spot { home: Home::Delayed, till: item.not_before }
        } else {
            Spot { home: Home::Pending, till: item.deadline }
        };
        self.homes.insert(ticket.handle(item.id), spot);
        self.tickets.insert(item.id, Paper::Whole(ticket.clone()));
        self.requests.insert(item.id, item.body);
        self.hold(ticket.names, 1, size);
        answer!["accepted", ticket]
    }
}

impl State {
    /// The limit that one more request meets in its lane; else its part of the rate is taken.
    fn limit_met(&mut self, item: &Item, size: i64, now: Ms) -> Option<&'static str> {
        const SECOND: u64 = 1_000_000;
        let limits = item.limits?;
        let lane = self.lanes.entry(names::lane(item.id)).or_default();
        let now = 1_000 * now;
        if limits.requests > 0 && lane.requests >= limits.requests {
            return Some("requests");
        }
        if limits.bytes > 0 && lane.bytes + size > limits.bytes {
            return Some("bytes");
        }
        if let Some(step) = SECOND.checked_div(limits.rate) {
            // Later is from before the clock went back.
            let used = lane.used_till.filter(|till| *till <= now + SECOND);
            let till = used.unwrap_or(0).max(now) + step;
            if till > now + SECOND {
                return Some("rate");
            }
            lane.used_till = Some(till);
        }
        None
    }
}

/// The ticket as its producer packs it: sequence and time of submission are the script's.
pub(crate) fn draft(item: &Item) -> Ticket {
    Ticket {
        generation: item.generation,
        body: Some(item.body),
        deadline: item.deadline,
        not_before: item.not_before,
        names: Names::Of(item.id),
        tail: item.tail,
        ..Ticket::blank(Handle { sequence: 0, generation: item.generation, id: item.id })
    }
}
