use super::claim::Lease;
use crate::{
    reply::{Part, Reply, answer},
    rules::Rule,
    state::{Handle, Home, LEASE_LOST, Ms, Named, Outcome, Spot, State, Ticket},
};

/// How many lapses a request is allowed where nobody has written the queue's policy.
const UNDECLARED_LAPSES: u16 = 5;

/// What a lease that ended costs its request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charge {
    Lapse,
    Forgiven,
    None,
}

impl State {
    /// Takes back leases whose time ran out; with what they leave of the limit, lowers those that end too late.
    pub(super) fn reclaim(&mut self, limit: usize, now: Ms) -> Reply {
        self.watch_beat(now);
        let mut reply = Reply::default();
        let mut lapsed = self.leases();
        lapsed.retain(|(till, ..)| *till <= now);
        lapsed.truncate(limit);
        let lowered = self.lower_expiries(limit - lapsed.len(), now);
        let mut wakes = false;
        for (till, _, handle) in lapsed {
            let forgiven = self.meta.forgiven_to.is_some_and(|to| till <= to);
            let charge = if forgiven { Charge::Forgiven } else { Charge::Lapse };
            wakes |= self.take_back(handle, charge, now, &mut reply);
        }
        if !self.keeps(Rule::OutageForAll) {
            self.meta.forgiven_to = None;
        }
        lowered.into_iter().for_each(|handle| reply.say(answer!["lowered", handle]));
        if wakes {
            self.ring();
        }
        reply
    }

    /// Takes back leases that an operator names; that costs their requests nothing.
    pub(super) fn reclaim_named(&mut self, named: &[Lease], now: Ms) -> Reply {
        let (mut reply, mut wakes) = (Reply::default(), false);
        for (fence, handle) in named {
            if self.holds(*fence, *handle) {
                wakes |= self.take_back(*handle, Charge::None, now, &mut reply);
            } else {
                reply.say(answer!["lost", *handle]);
            }
        }
        if wakes {
            self.ring();
        }
        reply
    }

    /// When the clock went back, no lease may last longer than the longest from now.
    fn lower_expiries(&mut self, limit: usize, now: Ms) -> Vec<Handle> {
        let longest = self.meta.longest_lease.filter(|_| self.keeps(Rule::LowerExpiries));
        let Some(longest) = longest else { return Vec::new() };
        let mut ahead = self.leases();
        ahead.retain(|(till, ..)| *till > now + longest);
        ahead.truncate(limit);
        for (_, fence, handle) in &ahead {
            self.homes.insert(*handle, Spot { home: Home::Leased(*fence), till: now + longest });
        }
        ahead.into_iter().map(|(.., handle)| handle).collect()
    }

    /// One lease ends. Says whether somebody should be woken.
    fn take_back(&mut self, handle: Handle, charge: Charge, now: Ms, reply: &mut Reply) -> bool {
        let ticket = match self.ticket(handle) {
            Named::Other => {
                self.homes.remove(&handle);
                reply.say(answer!["dropped", handle]);
                return self.made_room();
            }
            Named::This(ticket) if self.requests.contains_key(&handle.id) => ticket,
            damaged => {
                let ticket = match damaged {
                    Named::This(ticket) => ticket,
                    _ => self.mended(handle),
                };
                self.end(handle, ticket, Outcome::Unusable, now, reply);
                reply.say(answer!["ended", handle, Outcome::Unusable, "none"]);
                return self.made_room();
            }
        };
        let counted = if self.keeps(Rule::LapseCount) { charge } else { Charge::None };
        let ticket = ticket.charged(counted, now);
        if let Some(outcome) = self.end_of_lapsed(&ticket, charge, now) {
            self.end(handle, ticket, outcome, now, reply);
            reply.say(answer!["ended", handle, outcome, charge]);
            return self.made_room();
        }
        self.make_claimable(handle, &ticket);
        self.keep(handle, &ticket);
        reply.say(answer!["returned", handle, charge]);
        true
    }

    /// Flagged, then the last lapse that is allowed, then late.
    fn end_of_lapsed(&self, ticket: &Ticket, charge: Charge, now: Ms) -> Option<Outcome> {
        let most = self.policy("max_lapses").map_or(UNDECLARED_LAPSES, |most| most as u16);
        let killed = match charge {
            Charge::Lapse => ticket.lapses >= most,
            Charge::Forgiven => ticket.forgiven >= 4 * most,
            Charge::None => false,
        };
        if ticket.asked && (self.keeps(Rule::FlagFirst) || !killed) {
            Some(Outcome::Cancelled)
        } else if killed {
            Some(Outcome::KilledWorkers)
        } else {
            (ticket.deadline <= now).then_some(Outcome::DeadlineExceeded)
        }
    }

    /// Whether a lease that ended made room for another: for a suspect, or under a limit.
    fn made_room(&self) -> bool {
        let room = self.limit().is_some() && !self.line(Home::Pending).is_empty();
        !self.line(Home::Suspects).is_empty() || room
    }
}

impl Ticket {
    fn charged(self, charge: Charge, now: Ms) -> Self {
        Self {
            lapses: self.lapses + u16::from(charge == Charge::Lapse),
            forgiven: self.forgiven + u16::from(charge == Charge::Forgiven),
            fence: None,
            failure: Some((LEASE_LOST, now)),
            ..self
        }
    }
}

impl From<Charge> for Part {
    fn from(charge: Charge) -> Self {
        Self::Word(match charge {
            Charge::Lapse => "lapse",
            Charge::Forgiven => "forgiven",
            Charge::None => "none",
        })
    }
}
