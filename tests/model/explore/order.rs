//! Brings a world in order: what differs in nothing that can ever be seen is made the same.
//!
//! What is forgotten here is judged first, where it could still be wrong: a world is brought in order after its step and
//! its state were. Where something no longer matters, it is not dropped but put to what would do most harm if it did.

use holdfast_model::{
    names,
    state::{Answer, Fence, Handle, Home, Ms, Named, Outcome, Paper, Row, Session, State, Word},
};

use crate::world::{Bounds, Hand, LEAP, LEASE, Ledger, NOW, UNIT, Wish, Worker, World};

/// No attempt's answer: a record that holds it was judged when it was made, and another would differ from it.
const JUDGED: Answer = Answer(200);
/// Sessions of workers that are like new.
const LIKE_NEW: u8 = 210;
/// Owners of leases whose owners are gone.
const NOBODY: u8 = 220;

impl World {
    /// The one world that stands for all that are like it.
    pub(crate) fn in_order(mut self, bounds: &Bounds) -> Self {
        if self.faults == Some(0) {
            // Only a fault brings these back.
            (self.disk, self.stray) = (None, None);
        }
        self.bury_dead_hands();
        self.forget_the_answered();
        self.forget_claims(bounds);
        self.forget_owners(bounds);
        let past = self.past(bounds);
        let sessions: Vec<Session> = self.workers.iter().map(|worker| worker.session).collect();
        let stray = self.stray.map(|fence| fence.session);
        // After a step of the clock, nothing is said about what was pardoned.
        let silent = self.leap.is_some();
        let disk = self.disk.as_mut().map(|disk| (&mut disk.0, &mut disk.1));
        for (shard, ledger) in [(&mut self.shard, &mut self.ledger)].into_iter().chain(disk) {
            let spoken_of =
                |session: &Session| sessions.contains(session) || stray == Some(*session);
            shard.sessions.retain(|session, _| spoken_of(session));
            if !bounds.leaps {
                forget_pardons(shard, ledger);
            }
            plain(shard, bounds.life, past, silent || ledger.pardon == shard.meta.forgiven_to);
            forget_outcomes(shard, ledger);
            ledger.beat = ledger.beat.map(|at| at.max(past - 2 * UNIT));
            ledger.pardon = ledger.pardon.map(|at| if at < past { long(past) } else { at });
        }
        for post in &mut self.posts {
            post.deadline = post.deadline.max(past - LEASE);
        }
        self.wishes.retain(|wish| !matches!(wish, Wish::RetryNow(_, due) if *due < past));
        self.wishes.sort();
        for hand in self.workers.iter_mut().flat_map(|worker| &mut worker.hands) {
            hand.till = hand.till.max(NOW);
            hand.attempts =
                if hand.word.is_some() { 0 } else { hand.attempts.min(bounds.attempts) };
        }
        self.rename();
        self
    }

    /// What is before this moment stays in the past: now, unless the clock may still step back.
    fn past(&self, bounds: &Bounds) -> Ms {
        let may_step = bounds.leaps && self.leap.is_none() && self.faults != Some(0);
        if may_step { NOW - LEAP } else { NOW }
    }

    /// Whether a lease is lost for good: it is not held, here or on disk, and its claim is known, so that a copy of it
    /// gives nothing anew.
    pub(crate) fn is_dead(&self, hand: &Hand) -> bool {
        self.shards().all(|shard| {
            let row = shard.sessions.get(&hand.fence.session);
            let known = row.is_some_and(|row| row.call >= hand.fence.call);
            known && !shard.holds(hand.fence, hand.handle)
        })
    }

    /// Who lost its lease for good changes nothing, however it settles: at each such settle all ways are tried. So it
    /// acks, and its time is over: that it should have known better was judged.
    fn bury_dead_hands(&mut self) {
        let mut workers = std::mem::take(&mut self.workers);
        for hand in workers.iter_mut().flat_map(|worker| &mut worker.hands) {
            if self.is_dead(hand) {
                let word = hand.word.map(|_| Word::Ack);
                *hand = Hand { till: NOW, attempts: 0, word, ..hand.clone() };
            }
        }
        self.workers = workers;
    }

    /// Who settled last matters as long as somebody may settle the same again under the same fence.
    fn forget_the_answered(&mut self) {
        let workers = &self.workers;
        let asks = |fence: Fence, handle: Handle| {
            let mut hands = workers.iter().flat_map(|worker| &worker.hands);
            hands.any(|hand| (hand.fence, hand.handle) == (fence, handle))
        };
        let forget = |shard: &mut State, ledger: &mut Ledger| {
            for (id, paper) in shard.tickets.iter_mut() {
                if let Paper::Whole(ticket) = paper {
                    let handle = ticket.handle(*id);
                    ticket.settled = ticket.settled.filter(|(fence, _)| asks(*fence, handle));
                }
            }
            for (_, fate) in ledger.fates.iter_mut() {
                let there = matches!(shard.ticket(fate.handle), Named::This(_));
                fate.settler = fate.settler.filter(|fence| there && asks(*fence, fate.handle));
            }
        };
        forget(&mut self.shard, &mut self.ledger);
        if let Some(disk) = &mut self.disk {
            forget(&mut disk.0, &mut disk.1);
        }
    }

    /// A claim that may still be repeated gives of what it leased what is still held: so it may as well have leased
    /// everything. One that nobody repeats gives nothing; if its worker holds nothing either, it is like a new one.
    fn forget_claims(&mut self, bounds: &Bounds) {
        let late = bounds.late && self.faults != Some(0);
        let stray = self.stray.map(|fence| fence.session);
        for (worker, name) in self.workers.iter_mut().zip(LIKE_NEW..) {
            let silent = !late && !worker.asking && worker.hands.is_empty();
            if silent && stray != Some(worker.session) {
                (worker.session, worker.call) = (Session(name), 0);
            }
        }
        let (workers, stray) = (&self.workers, self.stray);
        let repeats = |session: &Session| {
            let asks = |it: &Worker| it.session == *session && (late || it.asking);
            stray.is_some_and(|fence| fence.session == *session) || workers.iter().any(asks)
        };
        // A row of an earlier claim than any that still counts is as good as none.
        let overtaken = |session: &Session, row: &Row| {
            let worker = workers.iter().find(|it| it.session == *session).filter(|_| !late);
            let hands = worker.iter().flat_map(|it| &it.hands).map(|hand| hand.fence.call);
            let calls = hands.chain(worker.map(|it| it.call));
            let stray = stray.filter(|it| it.session == *session).map(|it| it.call);
            calls.chain(stray).min().is_some_and(|first| row.call < first)
        };
        let disk = self.disk.as_mut().map(|disk| &mut disk.0);
        for shard in [&mut self.shard].into_iter().chain(disk) {
            let whole = shard.tickets.iter().filter_map(|(id, paper)| match paper {
                Paper::Whole(ticket) => Some(ticket.handle(*id)),
                Paper::Broken(_) => None,
            });
            let all: Vec<_> = whole.collect();
            shard.sessions.retain(|session, row| !overtaken(session, row));
            for (session, row) in shard.sessions.iter_mut() {
                row.handles = if repeats(session) { all.clone() } else { Vec::new() };
            }
        }
    }

    /// Of a lease that nobody will speak of, it matters no more whose it is.
    fn forget_owners(&mut self, bounds: &Bounds) {
        let late = bounds.late && self.faults != Some(0);
        let (workers, stray) = (&self.workers, self.stray);
        let spoken_of = |fence: Fence| {
            let speaks = |it: &Worker| {
                let asks =
                    it.session == fence.session && (late || it.asking && it.call == fence.call);
                asks || it.hands.iter().any(|hand| hand.fence == fence)
            };
            stray == Some(fence) || workers.iter().any(speaks)
        };
        let disk = self.disk.as_mut().map(|disk| &mut disk.0);
        for shard in [&mut self.shard].into_iter().chain(disk) {
            for ((handle, spot), name) in shard.homes.iter_mut().zip(NOBODY..) {
                let Home::Leased(owner) = &mut spot.home else { continue };
                if spoken_of(*owner) {
                    continue;
                }
                let nobody = Fence { session: Session(name), call: 1 };
                let named = |fence: Fence| if fence == *owner { nobody } else { fence };
                if let Some(Paper::Whole(ticket)) = shard.tickets.get_mut(&handle.id) {
                    ticket.fence = ticket.fence.map(named);
                }
                let suspect = shard.meta.suspect.filter(|(_, suspect)| suspect == handle);
                shard.meta.suspect =
                    suspect.map(|(fence, it)| (named(fence), it)).or(shard.meta.suspect);
                *owner = nobody;
            }
        }
    }
}

/// A pardon is for leases that end until then. Each later one ends later.
fn forget_pardons(shard: &mut State, ledger: &mut Ledger) {
    let first = shard.leases().first().map(|(till, ..)| *till);
    let matters = |to: &Ms| first.is_some_and(|first| first <= *to);
    shard.meta.forgiven_to = shard.meta.forgiven_to.filter(matters);
    ledger.pardon = ledger.pardon.filter(matters);
}

/// How something ended was judged; that it stays so is all that matters, and whether an operator may redrive it.
fn forget_outcomes(shard: &mut State, ledger: &mut Ledger) {
    for (generation, fate) in ledger.fates.iter_mut() {
        let Some(first) = &mut fate.record else { continue };
        let dead = first.0 >= Outcome::GaveUp;
        let judged = (if dead { Outcome::GaveUp } else { Outcome::Answered }, JUDGED);
        let record = shard.records.get_mut(&fate.handle.id);
        if let Some(record) = record.filter(|record| record.generation == *generation) {
            if (record.outcome, record.answer) != *first {
                continue;
            }
            let freed =
                names::answer_size(record.answer) as i64 - names::answer_size(JUDGED) as i64;
            (record.outcome, record.answer, record.status) = (judged.0, judged.1, 0);
            shard.meta.bytes = shard.meta.bytes.map(|bytes| bytes - freed);
            let lane = shard.lanes.get_mut(names::lane(fate.handle.id));
            lane.into_iter().for_each(|held| held.bytes -= freed);
        }
        *first = judged;
    }
}

/// A moment that is longer ago than it matters.
fn long(past: Ms) -> Ms {
    past - 3 * UNIT
}

/// A shard without what nobody reads, and without times that are too long ago to matter: all before `past` are
/// alike but for what they are compared with. `pardoned`: whether what it pardons is what is to be pardoned.
pub(crate) fn plain(shard: &mut State, life: Ms, past: Ms, pardoned: bool) {
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
        ticket.deadline = ticket.deadline.max(past - LEASE);
        let home = homes.get(&ticket.handle(*id)).map(|spot| spot.home);
        if home.is_some_and(Home::is_end) {
            // A redrive gives it as long as it had.
            (ticket.submitted_at, ticket.deadline) = (NOW, NOW + life);
            (ticket.attempts, ticket.lapses, ticket.forgiven) = (0, 0, 0);
            // What its caller wanted may only come back with the dead.
            ticket.asked &= home == Some(Home::Dead);
        }
    }
    let meta = &mut shard.meta;
    meta.beat = meta.beat.map(|at| at.max(past - 2 * UNIT));
    let forgiven_to = meta.forgiven_to;
    meta.forgiven_to = forgiven_to.map(|at| if at < past { long(past) } else { at });
    for (_, spot) in shard.homes.iter_mut() {
        spot.till = match spot.home {
            Home::Pending | Home::Suspects => spot.till.max(past - LEASE),
            Home::Delayed if spot.till < past => long(past),
            Home::Delayed => spot.till,
            Home::Finished | Home::Dead => spot.till.max(past),
            // Of a lease that ran out, all that matters is whether it is pardoned.
            Home::Leased(_) if spot.till > past => spot.till,
            Home::Leased(_) if !pardoned => spot.till.max(long(past)),
            Home::Leased(_) => match forgiven_to {
                Some(to) if to < past && spot.till <= to => long(past),
                Some(to) if to >= past => past,
                _ => past - UNIT,
            },
        };
    }
}
