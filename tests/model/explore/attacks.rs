//! The sequences that broke earlier wordings of the protocol, as far as they are about scripts, each taken by the model.
//! The number above each test names its sequence; `tests/scripts` has the same on a real server.
//!
//! "Late" is a copy of a call that runs after its caller gave up and after its repeat was answered.

mod claims;
mod ids;
mod operators;
mod outages;
mod settles;

use holdfast_model::{
    call::{Call, Claim, Item, Settle},
    invariants,
    reply::{Part, Reply},
    state::{Answer, Body, Fence, Generation, Handle, Home, Id, Ms, Outcome, Session, State, Word},
};

const LEASE: Ms = 10_000;
const LIFE: Ms = 3_600_000;
const GUARD: Ms = 600_000;

/// A shard, and its clock.
struct Run {
    state: State,
    now: Ms,
    generations: u32,
}

impl Run {
    /// A declared queue.
    fn new() -> Self {
        let mut run = Self { state: State::default(), now: 1_000_000_000, generations: 0 };
        let rows = [
            ("capacity", 100),
            ("capacity_bytes", 1_000_000),
            ("dead_retention", 1_000_000),
            ("max_lapses", 5),
            ("retention", 700_000),
        ];
        let rows = rows.map(|(field, value)| (field, Some(value))).to_vec();
        run.call(&Call::Policy { schema: 1, write: true, rows });
        run
    }

    fn call(&mut self, call: &Call) -> Reply {
        let reply = self.state.step(call, self.now);
        invariants::broken(&self.state).unwrap_or_else(|what| panic!("{what}, by {call:?}"));
        reply
    }

    /// A call that must leave everything as it is.
    fn in_vain(&mut self, call: &Call) -> &'static str {
        let before = self.state.clone();
        let word = first(&self.call(call));
        assert_eq!(before, self.state, "{call:?} wrote something");
        word
    }

    fn item(&mut self, id: u8) -> Item {
        self.generations += 1;
        let (generation, deadline) = (Generation(self.generations), self.now + LIFE);
        let (body, not_before, tail, limits) = (Body(0), 0, false, None);
        Item { id: Id(id), generation, body, deadline, not_before, tail, limits }
    }

    /// Submits an id, which must be accepted.
    fn submit(&mut self, id: u8) -> Handle {
        let item = self.item(id);
        self.accepted(&item)
    }

    fn accepted(&mut self, item: &Item) -> Handle {
        let reply = self.call(&submit(item));
        match reply.answers[0].as_slice() {
            [Part::Word("accepted"), Part::Ticket(ticket)] => ticket.handle(item.id),
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// What a claim leased.
    fn claim(&mut self, session: u8, call: u64, free: u64) -> Vec<Handle> {
        let reply = self.call(&claim(session, call, free));
        crate::step::leases(&reply).map(|(handle, ..)| handle).collect()
    }

    fn settle(&mut self, fence: Fence, handle: Handle, word: Word) -> &'static str {
        first(&self.call(&settle(fence, handle, word)))
    }

    fn renew(&mut self, fence: Fence, handle: Handle) -> &'static str {
        first(&self.call(&Call::Renew { lease: LEASE, leases: vec![(fence, handle)] }))
    }

    fn reclaim(&mut self) {
        self.call(&Call::Reclaim { limit: 256, named: Vec::new() });
    }

    /// Time passes, and somebody renews or reclaims now and then.
    fn pass(&mut self, by: Ms) {
        let till = self.now + by;
        while self.now < till {
            self.now = till.min(self.now + LEASE / 4);
            self.reclaim();
        }
    }

    /// A lease that nobody renews runs out, and is taken back.
    fn lapse(&mut self) {
        self.pass(LEASE + 1);
    }

    fn home(&self, handle: Handle) -> Home {
        self.state.homes[&handle].home
    }

    fn outcome(&self, handle: Handle) -> Option<Outcome> {
        let record = self.state.records.get(&handle.id)?;
        (record.generation == handle.generation).then_some(record.outcome)
    }

    fn lapses(&self, handle: Handle) -> u16 {
        self.state.readable(handle.id).map_or(0, |ticket| ticket.lapses)
    }

    /// Claims and buries one: it is dead.
    fn dead(&mut self, id: u8) -> Handle {
        let handle = self.submit(id);
        assert_eq!(self.claim(9, u64::from(id) + 1, 1), [handle]);
        assert_eq!(self.settle(fence(9, u64::from(id) + 1), handle, Word::Bury), "ok");
        handle
    }
}

fn submit(item: &Item) -> Call {
    Call::Submit { guard: GUARD, items: vec![item.clone()] }
}

fn fence(session: u8, call: u64) -> Fence {
    Fence { session: Session(session), call }
}

fn claim(session: u8, call: u64, free: u64) -> Call {
    let (lease, budget, along) = (LEASE, 1_000_000, 0);
    let (may_suspect, trusted_until) = (true, Ms::MAX);
    let fence = fence(session, call);
    Call::Claim(Claim { fence, free, lease, budget, may_suspect, trusted_until, along })
}

fn settle(fence: Fence, handle: Handle, word: Word) -> Call {
    let number = match word {
        Word::Ack => 200,
        Word::Retry => 5_000,
        Word::Release => 0,
        Word::Bury => 4,
    };
    let answer = (word == Word::Ack).then_some(Answer(fence.session.0));
    Call::Settle(vec![Settle { fence, handle, word, number, failure: None, answer }])
}

/// The first word of an answer.
fn first(reply: &Reply) -> &'static str {
    reply.words().next().unwrap_or("")
}
