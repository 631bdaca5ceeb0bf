//! Who gets the free slots, and when. Pure: no clock, no random source, no I/O of its own.
//!
//! A lease is never held by something that cannot run now, so a claim asks for no more than the
//! slots that are set aside for it until it is answered.

use std::time::{Duration, Instant};

use holdfast_core::script::MAX_ITEMS;

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
    free: usize,
    queues: Vec<Queue>,
    shards: Vec<Shard>,
    /// The shard that is offered slots first; one further each time.
    turn: usize,
    suspect: Suspect,
}

#[derive(Debug)]
struct Queue {
    /// The slots that this queue may still take, of the free ones.
    room: usize,
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
    /// All slots free, and every shard to be looked at. `queues` has the limit of each queue,
    /// `queue_of` the queue of each shard.
    pub(crate) fn new(
        slots: usize,
        queues: impl Iterator<Item = Option<usize>>,
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
            free: slots,
            queues: queues.map(|limit| Queue { room: limit.unwrap_or(slots) }).collect(),
            shards: queue_of.iter().map(shard).collect(),
            turn: 0,
            suspect: Suspect::None,
        }
    }

    /// Sets slots aside for the shards that are to be claimed from now, each its share.
    pub(crate) fn offer(&mut self, now: Instant) -> Vec<Offer> {
        let count = self.shards.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        let wanting: Vec<usize> = turns.filter(|shard| self.is_due(*shard, now)).collect();
        let mut shares = vec![0; wanting.len()];
        // First to each the same; then what some had no room for.
        for over in [false, true] {
            for (at, shard) in wanting.iter().enumerate() {
                let sharers = if over { 1 } else { wanting.len() - at };
                let share = self.free.div_ceil(sharers).min(MAX_ITEMS - shares[at]);
                shares[at] += self.take(*shard, share);
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
        asked.is_none() && (*wanted || *look_at <= now) && self.has_room(shard)
    }

    /// Takes up to so many of the free slots, as far as the shard's queue has room.
    fn take(&mut self, shard: usize, slots: usize) -> usize {
        let queue = &mut self.queues[self.shards[shard].queue];
        let taken = slots.min(queue.room);
        queue.room -= taken;
        self.free -= taken;
        taken
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
        let unused = it.asked.take().unwrap_or_default().saturating_sub(brought.leases);
        it.wanted |= brought.more;
        let poll = now + next_look;
        it.look_at = brought.next_due.map_or(poll, |due| due.min(poll));
        self.queues[it.queue].room += unused;
        self.free += unused;
        self.suspect = match (self.suspect, brought.suspects) {
            (Suspect::Asked(asked), 0) if asked == shard => Suspect::None,
            (Suspect::Asked(_) | Suspect::None, held) if held > 0 => Suspect::Held(held),
            (Suspect::Held(held), more) => Suspect::Held(held + more),
            (unchanged, _) => unchanged,
        };
    }

    /// A dispatch is over and its slot is free.
    pub(crate) fn finished(&mut self, shard: usize, was_suspect: bool) {
        self.free += 1;
        self.queues[self.shards[shard].queue].room += 1;
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
    pub(crate) fn rang(&mut self, shard: usize) -> bool {
        self.shards[shard].wanted = true;
        self.shards[shard].asked.is_some() || self.has_room(shard)
    }

    /// Whether a claim of this shard would have a slot.
    pub(crate) fn has_room(&self, shard: usize) -> bool {
        self.free > 0 && self.queues[self.shards[shard].queue].room > 0
    }

    /// Whether a shard's bell is worth waiting for: what it says would be news, and there is a slot.
    pub(crate) fn listens(&self, shard: usize) -> bool {
        let Shard { wanted, asked, .. } = &self.shards[shard];
        !wanted && asked.is_none() && self.has_room(shard)
    }

    /// When the next shard is to be looked at, of those that have room.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let open = (0..self.shards.len()).filter(|shard| self.has_room(*shard));
        open.map(|shard| &self.shards[shard])
            .filter(|shard| shard.asked.is_none())
            .map(|shard| shard.look_at)
            .min()
    }
}

#[cfg(test)]
mod tests;
