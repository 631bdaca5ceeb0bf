//! Who gets the free slots, and when. Pure: no clock, no random source, no I/O of its own.
//!
//! A lease is never held by something that cannot run now, so a claim asks for no more than the
//! slots that are set aside for it until it is answered. Slots belong to queues: one whose target
//! hangs fills its own, and no other's. How many of them are used is the breaker's to say.

use std::time::Duration;

use holdfast_core::script::MAX_ITEMS;
use rand::Rng;
use tokio::time::Instant;

use crate::breaker::{Breaker, Call, Over};

/// Looks that are no further apart are made together.
const SOON: Duration = Duration::from_secs(1);

/// What one claim may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// The shard to claim from.
    pub(crate) shard: usize,
    /// How many slots are set aside for it.
    pub(crate) free: usize,
    /// Whether a suspect may be among what it brings.
    pub(crate) may_take_suspect: bool,
}

/// What a claim brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    /// How many leases.
    pub(crate) leases: usize,
    /// How many of them are suspects.
    pub(crate) suspects: usize,
    /// Whether the shard has more for us at once.
    pub(crate) more: bool,
    /// When something delayed is due there.
    pub(crate) next_due: Option<Instant>,
}

/// The slots of this process and what is known of its shards.
#[derive(Debug)]
pub(crate) struct Slots {
    queues: Vec<Queue>,
    shards: Vec<Shard>,
    /// The shard that is offered slots first; one further each time.
    turn: usize,
    suspect: Suspect,
}

/// The slots of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// How many.
    pub(crate) slots: usize,
    /// Whether fewer are used while its target refuses calls.
    pub(crate) breaker: bool,
}

#[derive(Debug)]
struct Queue {
    slots: usize,
    /// Dispatches under way.
    running: usize,
    /// Those of them whose call is over, as their breaker knows: they are to be settled.
    settling: usize,
    /// Slots of the claims under way.
    set_aside: usize,
    breaker: Option<Breaker>,
}

impl Queue {
    fn new(share: Share) -> Self {
        let breaker = share.breaker.then(|| Breaker::new(share.slots));
        Self { slots: share.slots, running: 0, settling: 0, set_aside: 0, breaker }
    }

    /// The slots that it may take now.
    fn room(&self, now: Instant) -> usize {
        let free = self.free();
        let breaker = self.breaker.as_ref();
        breaker.map_or(free, |it| free.min(it.room(now, self.calls(), self.set_aside)))
    }

    /// Whether slots that are set aside would be given now: its target may have become worse meanwhile.
    fn would_give(&self, slots: usize, now: Instant) -> bool {
        let before = self.set_aside.saturating_sub(slots);
        let breaker = self.breaker.as_ref();
        breaker.is_none_or(|it| it.room(now, self.calls(), before) >= slots)
    }

    /// What its target has to do.
    fn calls(&self) -> usize {
        self.running.saturating_sub(self.settling)
    }

    fn free(&self) -> usize {
        self.slots.saturating_sub(self.running + self.set_aside)
    }

    /// When there is room again by the clock alone.
    fn opens_at(&self, now: Instant) -> Option<Instant> {
        let opens_at = self.breaker.as_ref()?.opens_at()?;
        (self.free() > 0 && now < opens_at).then_some(opens_at)
    }
}

#[derive(Debug)]
struct Shard {
    queue: usize,
    /// How many slots its claim has, if one is under way.
    asked: Option<usize>,
    /// Look at it as soon as there is a slot.
    wanted: bool,
    /// Look at it then, if not before.
    look_at: Instant,
    /// It may hold suspects that its last claim was not allowed to take.
    denied: bool,
}

/// A process holds at most one suspect, over all its shards, and asks for one in one claim at a
/// time: one request that kills its worker must not take another suspect with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    None,
    /// The claim on this shard may bring one.
    Asked(usize),
    /// So many are held. More than one only if somebody else gave them.
    Held(usize),
}

impl Slots {
    /// All slots free, and every shard to be looked at. `queue_of` has the queue of each shard.
    pub(crate) fn new(
        queues: impl Iterator<Item = Share>,
        queue_of: &[usize],
        now: Instant,
    ) -> Self {
        let shard = |queue: &usize| Shard {
            queue: *queue,
            asked: None,
            wanted: true,
            look_at: now,
            denied: false,
        };
        Self {
            queues: queues.map(Queue::new).collect(),
            shards: queue_of.iter().map(shard).collect(),
            turn: 0,
            suspect: Suspect::None,
        }
    }

    /// The shards of several that the clock alone calls for: whether they hold anything is asked first, which costs a tenth of
    /// a claim. They are looked at again at `next`.
    ///
    /// With one of them go those whose look would be soon, and from then on they are looked at together: that costs least.
    pub(crate) fn looks(&mut self, now: Instant, next: Instant) -> Vec<usize> {
        let by = |it: &Self, shard: usize, time: Instant| {
            let Shard { wanted, asked, look_at, .. } = it.shards[shard];
            !wanted && asked.is_none() && look_at <= time && it.has_room(shard, now)
        };
        let all = 0..self.shards.len();
        if all.len() == 1 || !all.clone().any(|shard| by(self, shard, now)) {
            return Vec::new();
        }
        let looks: Vec<usize> = all.filter(|shard| by(self, *shard, now + SOON)).collect();
        for shard in &looks {
            self.shards[*shard].look_at = next;
        }
        looks
    }

    /// A look has found something in a shard.
    pub(crate) fn found(&mut self, shard: usize) {
        self.shards[shard].wanted = true;
    }

    /// Sets slots aside for the shards that are to be claimed from now, each its share.
    pub(crate) fn offer(&mut self, now: Instant) -> Vec<Offer> {
        let count = self.shards.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        let wanting: Vec<usize> = turns.filter(|shard| self.is_due(*shard, now)).collect();
        let mut shares = vec![0; wanting.len()];
        let mut sharers = vec![0; self.queues.len()];
        for shard in &wanting {
            sharers[self.shards[*shard].queue] += 1;
        }
        // First to each shard of a queue the same; then what some had no room for.
        for over in [false, true] {
            for (at, shard) in wanting.iter().enumerate() {
                let queue = self.shards[*shard].queue;
                let among = if over { 1 } else { sharers[queue] };
                let room = self.queues[queue].room(now);
                let share = room.div_ceil(among).min(MAX_ITEMS - shares[at]);
                self.queues[queue].set_aside += share;
                shares[at] += share;
                sharers[queue] = sharers[queue].saturating_sub(1);
            }
        }
        let shares = wanting.into_iter().zip(shares).filter(|(_, free)| *free > 0);
        let offers: Vec<Offer> = shares.map(|(shard, free)| self.set_aside(shard, free)).collect();
        if !offers.is_empty() {
            self.turn = (self.turn + 1) % count;
        }
        offers
    }

    fn is_due(&self, shard: usize, now: Instant) -> bool {
        let Shard { wanted, look_at, asked, .. } = &self.shards[shard];
        asked.is_none() && (*wanted || *look_at <= now) && self.has_room(shard, now)
    }

    fn set_aside(&mut self, shard: usize, free: usize) -> Offer {
        let may_take_suspect = self.suspect == Suspect::None;
        if may_take_suspect {
            self.suspect = Suspect::Asked(shard);
        }
        let it = &mut self.shards[shard];
        (it.asked, it.wanted, it.denied) = (Some(free), false, !may_take_suspect);
        Offer { shard, free, may_take_suspect }
    }

    /// A claim that is to wait at the bell of the only shard, and until when: then that is to be
    /// looked at anyway.
    ///
    /// It is for one slot, however many there are. Should this process stall meanwhile, it takes no
    /// more than that with it; and if there is more, the answer says so, and all are offered.
    pub(crate) fn offer_at_bell(&mut self, now: Instant) -> Option<(Offer, Instant)> {
        if self.shards.len() != 1 || !self.listens(0, now) {
            return None;
        }
        let Shard { queue, look_at, .. } = self.shards[0];
        self.queues[queue].set_aside += 1;
        Some((self.set_aside(0, 1), look_at))
    }

    /// Whether a claim that waits at the bell is in the way of one that is due, or should not be made
    /// any more.
    pub(crate) fn calls_back(&self, now: Instant) -> bool {
        self.shards.iter().any(|shard| {
            let gives = |asked| self.queues[shard.queue].would_give(asked, now);
            shard.asked.is_some_and(|asked| shard.wanted || !gives(asked))
        })
    }

    /// A claim was answered. It is `next_look` until the shard is looked at again, unless something
    /// calls for it before.
    pub(crate) fn answered(
        &mut self,
        shard: usize,
        brought: Brought,
        now: Instant,
        next_look: Duration,
    ) {
        let it = &mut self.shards[shard];
        let asked = it.asked.take().unwrap_or_default();
        it.wanted |= brought.more;
        let poll = now + next_look;
        it.look_at = brought.next_due.map_or(poll, |due| due.min(poll));
        let queue = &mut self.queues[it.queue];
        queue.set_aside -= asked;
        queue.running += brought.leases;
        self.suspect = match (self.suspect, brought.suspects) {
            (Suspect::Asked(asked), 0) if asked == shard => Suspect::None,
            (Suspect::Asked(_) | Suspect::None, held) if held > 0 => Suspect::Held(held),
            (Suspect::Held(held), more) => Suspect::Held(held + more),
            (unchanged, _) => unchanged,
        };
    }

    /// A dispatch of what a claim has brought begins.
    pub(crate) fn begin(&mut self, shard: usize, now: Instant) -> Option<Call> {
        self.breaker_of(shard).map(|breaker| breaker.begin(now))
    }

    /// A call has been out for its patience, and was not refused.
    pub(crate) fn taken(&mut self, shard: usize, call: &mut Call, now: Instant) {
        let calls = self.queues[self.shards[shard].queue].calls();
        if let Some(breaker) = self.breaker_of(shard) {
            breaker.taken(call, now, calls);
        }
    }

    fn breaker_of(&mut self, shard: usize) -> Option<&mut Breaker> {
        self.queues[self.shards[shard].queue].breaker.as_mut()
    }

    /// The breaker of a queue, if it has one.
    pub(crate) fn breaker(&self, queue: usize) -> Option<&Breaker> {
        self.queues[queue].breaker.as_ref()
    }

    /// A call is over. Its dispatch keeps its slot until it is settled, which may take long; its target is free for another.
    /// True if its queue may take fewer from now on.
    pub(crate) fn call_over(
        &mut self,
        shard: usize,
        call: Call,
        over: Over,
        rng: &mut impl Rng,
    ) -> bool {
        let queue = &mut self.queues[self.shards[shard].queue];
        queue.settling += 1;
        let calls = queue.calls();
        let breaker = queue.breaker.as_mut();
        breaker.is_some_and(|breaker| breaker.end(call, over.sign, over.at, calls, rng))
    }

    /// A dispatch is over and its slot is free; `is_over` if that was said of its call.
    pub(crate) fn finished(&mut self, shard: usize, was_suspect: bool, is_over: bool) {
        let queue = &mut self.queues[self.shards[shard].queue];
        queue.running = queue.running.saturating_sub(1);
        queue.settling = queue.settling.saturating_sub(usize::from(is_over));
        self.let_go(was_suspect);
    }

    fn let_go(&mut self, was_suspect: bool) {
        match self.suspect {
            Suspect::Held(held) if was_suspect && held > 1 => {
                self.suspect = Suspect::Held(held - 1)
            }
            Suspect::Held(_) if was_suspect => {
                self.suspect = Suspect::None;
                // What they could not give us then, they may now.
                for shard in self.shards.iter_mut().filter(|shard| shard.denied) {
                    shard.wanted = true;
                }
            }
            _ => {}
        }
    }

    /// A token of a shard's bell was taken. False if there is no slot for what it announces: then
    /// it is to be put back, for somebody who has one.
    pub(crate) fn rang(&mut self, shard: usize, now: Instant) -> bool {
        self.shards[shard].wanted = true;
        self.shards[shard].asked.is_some() || self.has_room(shard, now)
    }

    /// Whether a claim of this shard would have a slot.
    pub(crate) fn has_room(&self, shard: usize, now: Instant) -> bool {
        self.queues[self.shards[shard].queue].room(now) > 0
    }

    /// Whether a shard's bell is worth waiting for: what it says would be news, and there is a slot.
    pub(crate) fn listens(&self, shard: usize, now: Instant) -> bool {
        let Shard { wanted, asked, .. } = &self.shards[shard];
        !wanted && asked.is_none() && self.has_room(shard, now)
    }

    /// When the next shard is to be looked at, of those that have room, or will have by then.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        let open = (0..self.shards.len()).filter(|shard| self.has_room(*shard, now));
        let shards = open.map(|shard| &self.shards[shard]);
        let looks = shards.filter(|shard| shard.asked.is_none()).map(|shard| shard.look_at);
        looks.chain(self.queues.iter().filter_map(|queue| queue.opens_at(now))).min()
    }
}

#[cfg(test)]
mod tests;
