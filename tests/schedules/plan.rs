//! What happens in a play, and when.

use crate::{
    dice::Dice,
    fate::{Family, Faults},
    mind::At,
    world::Actor,
};

/// Something that happens, beside what the network and the gateway do.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Requests come: their ids, and how long each has until its deadline, in ms.
    Submit(Vec<(u8, At)>),
    Cancel(u8),
    /// All processes stand still for so long, but for Redis and whoever else works with it.
    Stall(At),
    /// Nothing gets through between Redis and this one.
    Silence(Actor, At),
    /// All connections of this one break.
    Crash {
        forgets: At,
        down: At,
    },
    /// The clock of Redis is set.
    Clock(i64),
    /// Another worker, somewhere else, claims too.
    Stranger,
    /// From now on nothing goes wrong.
    Mend,
    Stop(usize),
}

#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) faults: Faults,
    /// The slots of each worker.
    pub(crate) slots: Vec<usize>,
    pub(crate) breaker: bool,
    /// Groups with this one fail.
    pub(crate) poison: Option<u8>,
    /// Whether it is looked, once all have ended, what the workers do until they would have renewed all they held.
    pub(crate) lingers: bool,
    /// In their order; the first is at 0.
    pub(crate) events: Vec<(At, Event)>,
}

/// How long requests come.
const BUSY: usize = 9_000;
const LONG: At = 1_800_000;

impl Plan {
    pub(crate) fn draw(family: Family, seed: u64) -> Self {
        let calm = seed % 10 == 9;
        let faults = Faults { seed, family, calm, only: None };
        let mut dice = faults.dice("plan", 0);
        let (slots, requests) = match family {
            Family::Claimer => (dice.of(&[vec![3], vec![2, 2]]), 8),
            Family::Renewer => (dice.of(&[vec![3], vec![3], vec![2, 2]]), 5),
            Family::Settler => (dice.of(&[vec![8], vec![8], vec![5, 5]]), 12),
            Family::Drain => (dice.of(&[vec![3, 3], vec![4, 2]]), 8),
        };
        let poisons = family == Family::Settler && !calm && dice.one_in(2);
        let mut plan = Self {
            faults,
            poison: poisons.then(|| dice.below(requests) as u8),
            breaker: dice.one_in(2),
            lingers: dice.one_in(4),
            events: Vec::new(),
            slots,
        };
        plan.submits(&mut dice, requests as u8);
        if family == Family::Drain {
            plan.drain(&mut dice);
        }
        if !calm {
            plan.accidents(&mut dice, requests);
        }
        plan.events.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Whether Redis is to forget something.
    pub(crate) fn forgets(&self) -> bool {
        let forgets = |event: &Event| matches!(event, Event::Crash { forgets, .. } if *forgets > 0);
        self.events.iter().any(|(_, event)| forgets(event))
    }

    fn at(&mut self, at: usize, event: Event) {
        self.events.push((at as At, event));
    }

    fn submits(&mut self, dice: &mut Dice, requests: u8) {
        let mut ids: Vec<u8> = (0..requests).collect();
        while !ids.is_empty() {
            let together = (1 + dice.below(6)).min(ids.len());
            let deadline = |dice: &mut Dice| match (self.faults.calm, dice.one_in(8)) {
                (false, true) => dice.of(&[4_000, 16_000, 30_000]),
                _ => LONG,
            };
            let them = ids.drain(..together).map(|id| (id, deadline(dice))).collect();
            let at = if self.events.is_empty() { 0 } else { dice.below(BUSY) };
            self.at(at, Event::Submit(them));
        }
    }

    fn drain(&mut self, dice: &mut Dice) {
        let at = 200 + dice.below(20_000);
        if dice.one_in(2) {
            self.at(at - 1, Event::Mend);
        } else if !self.faults.calm && dice.one_in(3) {
            // Its last claims find no server, until it has given them up or almost so.
            let down = dice.of(&[3_000, 9_000]);
            self.at(at - dice.below(200), Event::Crash { forgets: 0, down });
        }
        self.at(at, Event::Stop(0));
    }

    fn accidents(&mut self, dice: &mut Dice, requests: usize) {
        let workers = self.slots.len();
        let within = |dice: &mut Dice| 300 + dice.below(2 * BUSY);
        let spans: [At; 7] = [900, 3_000, 8_000, 14_500, 15_500, 22_000, 45_000];
        let often = self.faults.family == Family::Renewer;
        for _ in 0..if often { 1 + dice.below(3) } else { dice.below(2) } {
            let (at, span) = (within(dice), dice.of(&spans));
            let actor = Actor::Worker(dice.below(workers));
            let event = match dice.below(4) {
                0 | 1 => Event::Stall(span),
                2 => Event::Silence(actor, span),
                _ => Event::Silence(Actor::Reclaimer, span),
            };
            self.at(at, event);
        }
        if dice.one_in(3) {
            self.at(within(dice), Event::Cancel(dice.below(requests) as u8));
        }
        if dice.one_in(5) {
            let forgets = dice.of(&[0, 0, 200, 1_000, 3_000]);
            self.at(
                within(dice),
                Event::Crash { forgets, down: dice.of(&[0, 800, 4_000, 20_000]) },
            );
        }
        if dice.one_in(10) {
            self.at(
                within(dice),
                Event::Clock(dice.of(&[-30_000, -3_000, 3_000, 14_000, 14_000, 30_000])),
            );
        }
        for _ in 0..dice.below(if often { 8 } else { 3 }) {
            self.at(within(dice), Event::Stranger);
        }
    }
}
