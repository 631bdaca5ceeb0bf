use std::cmp::Ordering;

use crate::{
    call::Claim,
    reply::{Part, Reply, answer},
    rules::Rule,
    state::{Fence, Handle, Home, Ms, Named, Outcome, Row, Spot, State, Ticket},
    step::upkeep::Late,
};

/// How many due requests a claim promotes, how many late ones of a set it ends, and how many it touches in all.
const PROMOTED: usize = 64;
const ENDED: usize = 32;
const TOUCHED: usize = 256;

impl State {
    /// Leases what the caller has free slots for. The call's number comes first: a smaller one is stale, the same one is
    /// answered with what it leased before.
    pub(super) fn claim(&mut self, claim: &Claim, now: Ms) -> Reply {
        let mut reply = Reply::one(answer!["claimed"]);
        let last =
            self.sessions.get(&claim.fence.session).map(|row| claim.fence.call.cmp(&row.call));
        let busy = match last {
            Some(Ordering::Less) if self.keeps(Rule::StaleClaims) => {
                return Reply::one(answer!["stale"]);
            }
            Some(Ordering::Equal) => {
                self.claim_again(claim, now, &mut reply);
                false
            }
            _ => self.claim_anew(claim, now, &mut reply),
        };
        let next_due = self
            .line(Home::Delayed)
            .first()
            .map_or(-1, |(due, _)| due.saturating_sub(now).cast_signed());
        let more = self.has_more(claim, busy, now);
        reply.answers[0] = answer!["claimed", next_due, more, now];
        reply
    }

    /// The same leases, as far as they are still held: each renewed from now and capped, also in a paused queue.
    fn claim_again(&mut self, claim: &Claim, now: Ms, reply: &mut Reply) {
        let Some(row) = self.sessions.get_mut(&claim.fence.session) else { return };
        row.seen = now;
        for handle in row.handles.clone() {
            let Named::This(ticket) = self.ticket(handle) else { continue };
            let till = ticket.deadline.min(now) + claim.lease;
            let held = self.holds(claim.fence, handle) || !self.keeps(Rule::RepeatOfHeld);
            if held && till > now {
                if self.keeps(Rule::RepeatRenews) {
                    self.homes.insert(handle, Spot { home: Home::Leased(claim.fence), till });
                }
                reply.say(lease(handle, &ticket, till, now));
            }
        }
    }

    /// New leases. Says whether upkeep has more to do.
    fn claim_anew(&mut self, claim: &Claim, now: Ms, reply: &mut Reply) -> bool {
        let (due, _) = self.promote_due(PROMOTED, now);
        let mut late = Late::default();
        if claim.may_end(now) || !self.keeps(Rule::TrustedClock) {
            late = self.end_late(ENDED, now, reply);
        }
        let out = self.leases().len();
        let rest = TOUCHED - due - late.seen;
        let handles = self.lease_in_order(claim, rest, now, reply, &mut late.ended);

        let longest = self.meta.longest_lease.unwrap_or(0);
        // With no other lease out, this one is the longest, also when it is shorter than what was.
        if !handles.is_empty() && (out == 0 || claim.lease > longest) {
            self.meta.longest_lease = Some(claim.lease);
        }
        if !handles.is_empty() || self.keeps(Rule::EmptyClaims) {
            let row = Row { call: claim.fence.call, seen: now, handles };
            self.sessions.insert(claim.fence.session, row);
        }
        for (handle, outcome) in late.ended {
            reply.say(answer!["ended", handle, outcome]);
        }
        due == PROMOTED || late.more
    }

    /// Leases the earliest deadlines first, as many as there is room for, of the `rest` that the call may touch.
    fn lease_in_order(
        &mut self,
        claim: &Claim,
        rest: usize,
        now: Ms,
        reply: &mut Reply,
        ended: &mut Vec<(Handle, Outcome)>,
    ) -> Vec<Handle> {
        let room = self.room(claim.free).min(rest);
        let (mut taken, mut size) = (Vec::new(), 0);
        for handle in self.candidates(claim, room, now).into_iter().take(rest) {
            match self.ticket(handle) {
                _ if taken.len() == room => break,
                Named::This(ticket) => {
                    size += ticket.body_size();
                    // The first always fits; at the first that does not, stop: skipping would break the order.
                    if !taken.is_empty() && size > claim.budget {
                        break;
                    }
                    self.lease(claim, handle, ticket, now, reply);
                    taken.push(handle);
                }
                Named::Other => {
                    self.homes.remove(&handle);
                }
                Named::Unreadable => {
                    self.end_unusable(handle, now, reply);
                    ended.push((handle, Outcome::Unusable));
                }
            }
        }
        let taken_size: u64 = taken.iter().map(|handle| self.size_of(*handle)).sum();
        if taken_size < claim.along {
            self.bring(&taken, reply);
        }
        taken
    }

    fn size_of(&self, handle: Handle) -> u64 {
        match self.ticket(handle) {
            Named::This(ticket) => ticket.body_size(),
            _ => 0,
        }
    }

    /// What was submitted comes along with all the leases, whose answers are all there are behind the head.
    fn bring(&self, taken: &[Handle], reply: &mut Reply) {
        for (answer, handle) in reply.answers.iter_mut().skip(1).zip(taken) {
            answer.push(Part::Request(handle.id, self.requests.get(&handle.id).copied()));
        }
    }

    /// How much may be leased under pause and in-flight limit.
    fn room(&self, free: u64) -> usize {
        let out = self.leases().len() as u64;
        let room = self.limit().map_or(free, |limit| free.min(limit.saturating_sub(out)));
        if self.overruled("paused").is_some() { 0 } else { room as usize }
    }

    /// What may be leased, in order: the head of `suspects` only while no other suspect of the shard is leased, and only
    /// to a caller that holds none elsewhere. What is late and may not be ended is not leased, and holds nothing up.
    fn candidates(&self, claim: &Claim, room: usize, now: Ms) -> Vec<Handle> {
        let in_time = |home| self.line(home).into_iter().filter(|(deadline, _)| *deadline > now);
        let mut pending: Vec<_> = in_time(Home::Pending).collect();
        if !self.keeps(Rule::Order) {
            pending.sort_by_key(|(_, handle)| *handle);
        }
        let mut candidates: Vec<_> = pending.into_iter().take(room).collect();
        let alone = self.keeps(Rule::SuspectsAlone);
        let may_suspect = claim.may_suspect || !self.keeps(Rule::SuspectElsewhere);
        if room > 0 && may_suspect && !(alone && self.suspect_is_out()) {
            candidates.extend(in_time(Home::Suspects).take(if alone { 1 } else { room }));
            candidates.sort();
        }
        candidates.into_iter().map(|(_, handle)| handle).collect()
    }

    fn suspect_is_out(&self) -> bool {
        self.meta.suspect.is_some_and(|(fence, handle)| self.holds(fence, handle))
    }

    fn lease(&mut self, claim: &Claim, handle: Handle, ticket: Ticket, now: Ms, reply: &mut Reply) {
        let Claim { fence, lease: length, .. } = *claim;
        let ticket = Ticket {
            attempts: ticket.attempts + 1,
            fence: Some(fence),
            claimed_at: Some(now),
            ..ticket
        };
        let till = now.min(ticket.deadline) + length;
        let spot = Spot { home: Home::Leased(fence), till };
        if self.homes.insert(handle, spot).is_some_and(|from| from.home == Home::Suspects) {
            self.meta.suspect = Some((fence, handle));
        }
        self.keep(handle, &ticket);
        reply.say(lease(handle, &ticket, till, now));
    }

    /// Whether the caller would find more at once. If so, another is woken too; if nothing is left for anybody, nobody.
    fn has_more(&mut self, claim: &Claim, busy: bool, now: Ms) -> bool {
        let there =
            |home, all| self.line(home).into_iter().filter(|(till, _)| all || *till > now).count();
        let pending = there(Home::Pending, claim.may_end(now));
        let suspects = there(Home::Suspects, claim.may_end(now));
        if pending + suspects == 0 && !busy {
            self.bell = 0;
            return false;
        }
        let open = self.overruled("paused").is_none()
            && self.limit().is_none_or(|limit| (self.leases().len() as u64) < limit);
        let fits = pending > 0 || claim.may_suspect && !self.suspect_is_out();
        let more = busy || open && fits;
        if more && self.bell == 0 {
            self.bell = 1;
        }
        more
    }
}

fn lease(handle: Handle, ticket: &Ticket, till: Ms, now: Ms) -> Vec<Part> {
    let left = ticket.deadline.cast_signed() - now.cast_signed();
    answer!["lease", handle, ticket.clone(), left, till - now, ticket.asked]
}

/// A lease by its owner.
pub(super) type Lease = (Fence, Handle);
