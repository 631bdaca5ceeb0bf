//! Brings a world in order: what differs in nothing that can ever be seen is made the same.

use holdfast_model::state::{Fence, Home, Ms, Paper, Session, State};

use crate::world::{LEASE, Ledger, NOW, UNIT, World};

/// A moment that is longer ago than it matters.
const LONG_AGO: Ms = NOW - 3 * UNIT;

impl World {
    /// The one world that stands for all that are like it.
    pub(crate) fn in_order(mut self, life: Ms) -> Self {
        self.forget_the_answered();
        let sessions: Vec<Session> = self.workers.iter().map(|worker| worker.session).collect();
        let stray = self.stray.map(|fence| fence.session);
        // After a step of the clock, nothing is said about what was pardoned.
        let silent = self.leap.is_some();
        let disk = self.disk.as_mut().map(|disk| (&mut disk.0, &mut disk.1));
        for (shard, ledger) in [(&mut self.shard, &mut self.ledger)].into_iter().chain(disk) {
            let spoken_of =
                |session: &Session| sessions.contains(session) || stray == Some(*session);
            shard.sessions.retain(|session, _| spoken_of(session));
            plain(shard, life, silent || ledger.pardon == shard.meta.forgiven_to);
            ledger.beat = ledger.beat.map(|at| at.max(NOW - 2 * UNIT));
            ledger.pardon = ledger.pardon.map(|at| if at < NOW { LONG_AGO } else { at });
        }
        for post in &mut self.posts {
            post.deadline = post.deadline.max(NOW - LEASE);
        }
        self.wishes
            .retain(|wish| !matches!(wish, crate::world::Wish::RetryNow(_, due) if *due < NOW));
        for hand in self.workers.iter_mut().flat_map(|worker| &mut worker.hands) {
            hand.till = hand.till.max(NOW);
            hand.attempts = if hand.word.is_some() { 0 } else { hand.attempts };
        }
        self.rename();
        self
    }

    /// Who settled last matters as long as somebody may settle again under the same fence.
    fn forget_the_answered(&mut self) {
        let asked: Vec<Fence> =
            self.workers.iter().flat_map(|worker| &worker.hands).map(|hand| hand.fence).collect();
        let forget = |shard: &mut State, ledger: &mut Ledger| {
            for (_, paper) in shard.tickets.iter_mut() {
                if let Paper::Whole(ticket) = paper {
                    ticket.settled = ticket.settled.filter(|(fence, _)| asked.contains(fence));
                }
            }
            for (_, fate) in ledger.fates.iter_mut() {
                fate.settler = fate.settler.filter(|fence| asked.contains(fence));
            }
        };
        forget(&mut self.shard, &mut self.ledger);
        if let Some(disk) = &mut self.disk {
            forget(&mut disk.0, &mut disk.1);
        }
    }

    /// Workers are alike, and so are those that are gone; of a claim's number only its place among others matters. Between
    /// two that are used there is always one that is not.
    fn rename(&mut self) {
        let mut fences = Vec::new();
        self.each_fence(&mut |fence| {
            fences.push(fence);
            fence
        });
        fences.sort();
        fences.dedup();
        let call = |fence: Fence| {
            let before =
                fences.iter().filter(|it| it.session == fence.session && it.call < fence.call);
            2 * (before.count() as u64 + 1)
        };
        let key = |at: &usize| {
            let worker = &self.workers[*at];
            let hands = worker.hands.iter().map(|hand| {
                (hand.handle, hand.till, hand.word.map(|word| word as u8), call(hand.fence))
            });
            (worker.asking, worker.call > 0, hands.collect::<Vec<_>>())
        };
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        order.sort_by_key(key);
        let mut sessions: Vec<Session> = order.iter().map(|at| self.workers[*at].session).collect();
        for fence in &fences {
            if !sessions.contains(&fence.session) {
                sessions.push(fence.session);
            }
        }
        let place =
            |session| sessions.iter().position(|it| *it == session).unwrap_or(sessions.len());
        let renamed = |fence: Fence| Fence {
            session: Session(place(fence.session) as u8),
            call: call(fence),
        };
        self.workers = order.iter().map(|at| self.workers[*at].clone()).collect();
        self.each_fence(&mut |fence| {
            if fence.call == 0 { Fence { call: 0, ..renamed(fence) } } else { renamed(fence) }
        });
        for worker in &mut self.workers {
            worker.hands.sort();
        }
    }

    fn each_fence(&mut self, name: &mut impl FnMut(Fence) -> Fence) {
        self.shard.rename(name);
        let ledger = |ledger: &mut Ledger, name: &mut dyn FnMut(Fence) -> Fence| {
            for (_, fate) in ledger.fates.iter_mut() {
                fate.settler = fate.settler.map(&mut *name);
            }
        };
        ledger(&mut self.ledger, name);
        if let Some(disk) = &mut self.disk {
            disk.0.rename(name);
            ledger(&mut disk.1, name);
        }
        self.stray = self.stray.map(&mut *name);
        for worker in &mut self.workers {
            let last = name(Fence { session: worker.session, call: worker.call });
            (worker.session, worker.call) = (last.session, last.call);
            for hand in &mut worker.hands {
                hand.fence = name(hand.fence);
            }
        }
    }
}

/// A shard without what nobody reads, and without times that are too long ago to matter. `pardoned`: whether what it
/// pardons is what is to be pardoned.
pub(crate) fn plain(shard: &mut State, life: Ms, pardoned: bool) {
    shard.bell = 0;
    shard.sessions.iter_mut().for_each(|(_, row)| row.seen = 0);
    let suspect = shard.meta.suspect;
    shard.meta.suspect = suspect.filter(|(fence, handle)| shard.holds(*fence, *handle));
    for (_, record) in shard.records.iter_mut() {
        (record.ended_at, record.attempts, record.lapses, record.forgiven) = (0, 0, 0, 0);
        record.failure = None;
    }
    let homes = &shard.homes;
    for (id, paper) in shard.tickets.iter_mut() {
        let Paper::Whole(ticket) = paper else { continue };
        (ticket.claimed_at, ticket.failure, ticket.previous) = (None, None, None);
        (ticket.submitted_at, ticket.not_before) = (0, 0);
        ticket.deadline = ticket.deadline.max(NOW - LEASE);
        if homes.get(&ticket.handle(*id)).is_some_and(|spot| spot.home.is_end()) {
            // A redrive gives it as long as it had.
            (ticket.submitted_at, ticket.deadline) = (NOW, NOW + life);
            (ticket.attempts, ticket.lapses, ticket.forgiven) = (0, 0, 0);
        }
    }
    let meta = &mut shard.meta;
    meta.beat = meta.beat.map(|at| at.max(NOW - 2 * UNIT));
    let forgiven_to = meta.forgiven_to;
    meta.forgiven_to = forgiven_to.map(|at| if at < NOW { LONG_AGO } else { at });
    for (_, spot) in shard.homes.iter_mut() {
        spot.till = match spot.home {
            Home::Pending | Home::Suspects => spot.till.max(NOW - LEASE),
            Home::Delayed if spot.till < NOW => LONG_AGO,
            Home::Delayed => spot.till,
            Home::Finished | Home::Dead => spot.till.max(NOW),
            // Of a lease that ran out, all that matters is whether it is pardoned.
            Home::Leased(_) if spot.till > NOW || !pardoned => spot.till,
            Home::Leased(_) => match forgiven_to {
                Some(to) if to < NOW && spot.till <= to => LONG_AGO,
                Some(to) if to >= NOW => NOW,
                _ => NOW - UNIT,
            },
        };
    }
}
