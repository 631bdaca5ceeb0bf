//! What can happen, and what then becomes of the world.
//!
//! A lost request, a refusal for want of memory, and a script that is aborted before its first write have no step of
//! their own: they leave the shard as it was, and the caller makes the call again, which is the same call made later.
//! A producer's and an operator's calls run again at any time while copies of them may be on their way: that is a lost
//! reply and its repeat, and a late copy, all in one. A worker stalls by doing nothing while time passes.

use holdfast_model::{
    call::{Call, Claim, Overrule, Settle},
    reply::{Part, Reply},
    state::{Body, Fence, Handle, Ms, Session, Word},
};

use crate::world::{
    BACK_OFF, Bounds, COPIES, GUARD, Hand, LEAP, LEASE, Leap, NOW, Post, UNIT, Wish, World, answer,
    id,
};

use Told::{Heard, Lost};

/// A session that no worker has; its new name is found when the world is brought in order.
const NEW_SESSION: Session = Session(200);

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A new submit of an id, maybe with other bytes than its first.
    Submit(u8, Body),
    /// A copy of a submit.
    Resubmit(usize),
    Cancel(Handle),
    /// What an operator asks for; again, or late.
    Wish(Wish),
    /// A worker's claim, or its repeat; its reply may be lost.
    Claim(usize, Told),
    /// A late copy of a worker's last claim, or of an earlier one.
    LateClaim(usize, u64),
    /// The claim of a worker that crashed.
    StrayClaim,
    Renew(usize, Told),
    Settle(usize, usize, Word, Told),
    Crash(usize),
    Reclaim,
    Promote,
    Expire,
    Sweep,
    /// Half a lease passes.
    Tick,
    /// What is there now survives a crash of Redis.
    Sync,
    /// Redis crashes, and forgets what came after.
    Forget,
    Clock(Leap),
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Heard,
    Lost,
}
impl World {
    /// Takes a step. Says whether there was anything to take.
    pub(crate) fn take(&mut self, step: &Step, bounds: &Bounds) -> bool {
        let costs = match step {
            Step::Claim(_, reply) | Step::Renew(_, reply) | Step::Settle(.., reply) => {
                *reply == Lost
            }
            Step::LateClaim(..) | Step::StrayClaim | Step::Crash(_) => true,
            Step::Clock(_) | Step::Forget => true,
            Step::Tick => self.stalls(),
            _ => false,
        };
        if costs && !self.fault() {
            return false;
        }
        match step {
            Step::Submit(number, body) => self.submit(*number, *body, bounds),
            Step::Resubmit(post) => self.run(*post),
            Step::Cancel(handle) => drop(self.call(Call::Cancel(vec![*handle]))),
            Step::Wish(wish) => self.wish(wish),
            Step::Claim(at, reply) => self.claim(*at, *reply, bounds),
            Step::LateClaim(at, call) => {
                let fence = Fence { session: self.workers[*at].session, call: *call };
                self.call(self.claim_of(fence, bounds.slots, true));
            }
            Step::StrayClaim => {
                if let Some(fence) = self.stray.take() {
                    self.call(self.claim_of(fence, bounds.slots, true));
                }
            }
            Step::Renew(at, reply) => self.renew(*at, *reply),
            Step::Settle(at, number, word, reply) => self.settle(*at, *number, *word, *reply),
            Step::Crash(at) => self.crash(*at),
            Step::Reclaim => {
                self.call(Call::Reclaim { limit: bounds.reclaimed, named: Vec::new() });
            }
            Step::Promote => drop(self.call(Call::Promote { limit: 256, named: Vec::new() })),
            Step::Expire => drop(self.call(Call::Expire { limit: 128 })),
            Step::Sweep => drop(self.call(Call::Sweep { limit: 128, age: NOW })),
            Step::Tick => self.tick(),
            Step::Sync => self.disk = Some(Box::new((self.shard.clone(), self.ledger.clone()))),
            Step::Forget => self.forget(),
            Step::Clock(leap) => self.clock(*leap),
        }
        true
    }

    /// How many slots a worker has free.
    pub(crate) fn free(&self, at: usize, bounds: &Bounds) -> u64 {
        let hands = &self.workers[at].hands;
        let running = hands.iter().filter(|hand| hand.word.is_none()).count();
        let left = bounds.slots.saturating_sub(running as u64);
        left.min((bounds.slots + bounds.behind).saturating_sub(hands.len() as u64))
    }

    fn submit(&mut self, number: u8, body: Body, bounds: &Bounds) {
        let post = Post {
            id: id(number),
            generation: self.name(),
            body,
            // What is submitted later is due earlier.
            deadline: NOW + bounds.life - UNIT * Ms::from(number),
            till: NOW + COPIES,
            told: false,
        };
        self.posts.push(post);
        self.run(self.posts.len() - 1);
    }

    fn run(&mut self, post: usize) {
        let item = self.posts[post].item();
        let reply = self.call(Call::Submit { guard: GUARD, items: vec![item] });
        let told = reply.words().any(|word| word == "known" || word == "reused");
        let generation = self.posts[post].generation;
        self.posts[post].told |= told && !self.ledger.fates.contains_key(&generation);
    }

    fn wish(&mut self, wish: &Wish) {
        if !self.wishes.contains(wish) {
            // Of all that an operator saw waiting, the last.
            let again = |it: &Wish| matches!((it, wish), (Wish::RetryNow(..), Wish::RetryNow(..)));
            self.wishes.retain(|it| !again(it));
            self.wishes.push(wish.clone());
        }
        match wish {
            Wish::Redrive(handle, generation) => {
                self.generations = self.generations.max(generation.0);
                self.call(Call::Redrive(vec![(*handle, *generation, 0)]));
            }
            Wish::RetryNow(handle, due) => {
                self.call(Call::Promote { limit: 256, named: vec![(*handle, *due)] });
            }
            Wish::Pause(version, on) => {
                let value = on.then_some(1);
                let (field, decide, total) = ("paused", true, None);
                let word = Overrule { field, decide, version: *version, value, total };
                self.call(Call::Overrule(word));
            }
        }
    }

    pub(crate) fn claim_of(&self, fence: Fence, free: u64, may_suspect: bool) -> Call {
        let trusted_until = if self.leap == Some(Leap::Forward) { 0 } else { NOW };
        let (lease, budget, along) = (LEASE, 1_000_000, 0);
        Call::Claim(Claim { fence, free, lease, budget, may_suspect, trusted_until, along })
    }

    fn claim(&mut self, at: usize, reply: Told, bounds: &Bounds) {
        let free = self.free(at, bounds);
        let worker = &mut self.workers[at];
        worker.call += u64::from(!worker.asking);
        worker.asking = reply == Lost;
        let may_suspect = !worker.hands.iter().any(|hand| hand.suspect);
        let fence = Fence { session: worker.session, call: worker.call };
        let answer = self.call(self.claim_of(fence, free, may_suspect));
        if reply == Heard {
            let hands = leases(&answer).map(|(handle, attempts, suspect, left)| {
                let till = NOW + left;
                Hand { handle, fence, till, attempts, suspect, word: None }
            });
            self.workers[at].hands.extend(hands);
        }
    }

    fn renew(&mut self, at: usize, reply: Told) {
        let running = self.workers[at].hands.iter().filter(|hand| hand.word.is_none());
        let leases = running.map(|hand| (hand.fence, hand.handle)).collect();
        let answer = self.call(Call::Renew { lease: LEASE, leases });
        if reply == Lost {
            return;
        }
        let mut answers = answer.answers.iter();
        self.workers[at].hands.retain_mut(|hand| {
            if hand.word.is_some() {
                return true;
            }
            match answers.next().map(Vec::as_slice) {
                Some([Part::Word("held" | "cancel"), Part::Number(left)]) => {
                    hand.till = NOW + left.cast_unsigned();
                    true
                }
                _ => false,
            }
        });
    }

    fn settle(&mut self, at: usize, number: usize, word: Word, reply: Told) {
        let hand = &mut self.workers[at].hands[number];
        hand.word = Some(word);
        let row = settle(hand.fence, hand.handle, word);
        if reply == Heard {
            self.workers[at].hands.remove(number);
        }
        self.call(Call::Settle(vec![row]));
    }

    fn crash(&mut self, at: usize) {
        let worker = &mut self.workers[at];
        let last = Fence { session: worker.session, call: worker.call };
        self.stray = worker.asking.then_some(last).or(self.stray);
        (worker.session, worker.call, worker.asking) = (NEW_SESSION, 0, false);
        worker.hands.clear();
    }

    /// Whether half a lease more is too much for a worker that lives.
    fn stalls(&self) -> bool {
        let hands = self.workers.iter().flat_map(|worker| &worker.hands);
        let runs_out = |hand: &Hand| {
            let spot = self.shard.homes.get(&hand.handle);
            let held = self.shard.holds(hand.fence, hand.handle);
            held && spot.is_some_and(|spot| spot.till > NOW && spot.till <= NOW + UNIT)
        };
        hands.into_iter().any(runs_out)
    }

    fn tick(&mut self) {
        self.pass(UNIT.cast_signed());
        self.posts.iter_mut().for_each(|post| post.till -= UNIT);
        self.posts.retain(|post| post.till >= NOW);
        for worker in &mut self.workers {
            worker.hands.iter_mut().for_each(|hand| hand.till -= UNIT);
        }
    }

    /// The server's clock goes on.
    fn pass(&mut self, by: i64) {
        let ledger = |ledger: &mut crate::world::Ledger| {
            let times = [&mut ledger.beat, &mut ledger.pardon];
            times.into_iter().flatten().for_each(|at| *at = at.saturating_add_signed(-by));
        };
        self.shard.pass(by);
        ledger(&mut self.ledger);
        if let Some(disk) = &mut self.disk {
            disk.0.pass(by);
            ledger(&mut disk.1);
        }
        self.posts
            .iter_mut()
            .for_each(|post| post.deadline = post.deadline.saturating_add_signed(-by));
        for wish in &mut self.wishes {
            if let Wish::RetryNow(_, due) = wish {
                *due = due.saturating_add_signed(-by);
            }
        }
    }

    fn clock(&mut self, leap: Leap) {
        self.leap = Some(leap);
        let by = LEAP.cast_signed();
        self.pass(if leap == Leap::Forward { by } else { -by });
        (self.ledger.beat, self.ledger.pardon) = (None, None);
    }

    fn forget(&mut self) {
        if let Some(disk) = self.disk.take() {
            (self.shard, self.ledger) = *disk;
            self.forgot = true;
            self.posts.iter_mut().for_each(|post| post.told = false);
        }
    }
}

/// How an attempt is settled.
pub(crate) fn settle(fence: Fence, handle: Handle, word: Word) -> Settle {
    let number = match word {
        Word::Ack => 200,
        Word::Retry => BACK_OFF,
        Word::Release => 0,
        Word::Bury => 4,
    };
    let answer = (word == Word::Ack).then_some(answer(handle.generation));
    Settle { fence, handle, word, number, failure: None, answer }
}

/// What a claim was answered: handle, attempts, whether it is a suspect, how long the lease lasts.
pub(crate) fn leases(reply: &Reply) -> impl Iterator<Item = (Handle, u32, bool, u64)> {
    reply.answers.iter().filter_map(|answer| match answer.as_slice() {
        [Part::Word("lease"), Part::Handle(handle), Part::Ticket(ticket), _, left, ..] => {
            let left = match left {
                Part::Number(left) => left.cast_unsigned(),
                _ => 0,
            };
            Some((*handle, ticket.attempts, ticket.is_suspect(), left))
        }
        _ => None,
    })
}
