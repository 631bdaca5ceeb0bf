//! What is around the shard: who calls it, what each of them remembers, and what was promised to whom.

use holdfast_model::{
    call::Item,
    rules::Rules,
    state::{
        Answer, Body, Fence, Generation, Handle, Id, Map, Meta, Ms, Outcome, Session, State, Word,
    },
};

/// The moment at which everything happens: time passes by what is remembered moving into the past.
pub(crate) const NOW: Ms = 1_000_000;
/// How far time moves in one step: half a lease, the shortest time that the protocol knows.
pub(crate) const UNIT: Ms = 1_000;
pub(crate) const LEASE: Ms = 2 * UNIT;
/// How long a producer's copies of one submit are on their way; shorter than the guard, as 1 min is than 10.
pub(crate) const COPIES: Ms = UNIT;
pub(crate) const GUARD: Ms = 2 * UNIT;
pub(crate) const RETENTION: Ms = 2 * UNIT;
/// How long a retry waits.
pub(crate) const BACK_OFF: Ms = UNIT;
/// By how much the server's clock steps.
pub(crate) const LEAP: Ms = 4 * UNIT;

/// How much there is of everything, and what may go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) name: &'static str,
    pub(crate) ids: u8,
    pub(crate) workers: u8,
    pub(crate) generations: u32,
    pub(crate) attempts: u32,
    pub(crate) max_lapses: u16,
    /// Free slots of each worker.
    pub(crate) slots: u64,
    /// How many settles a worker leaves behind unanswered, and goes on.
    pub(crate) behind: u64,
    /// From submission to deadline.
    pub(crate) life: Ms,
    /// How many faults a run may have; none: any number.
    pub(crate) faults: Option<u8>,
    /// Whether workers crash.
    pub(crate) crashes: bool,
    /// Whether copies of claims come late.
    pub(crate) late: bool,
    /// Whether the server's clock steps, once a run.
    pub(crate) leaps: bool,
    /// Whether Redis falls back to what it was at some earlier moment, once a run.
    pub(crate) forgets: bool,
    /// Whether an id is also submitted with other bytes.
    pub(crate) other_bytes: bool,
    pub(crate) cancels: bool,
    /// Whether operators redrive, and retry at once.
    pub(crate) operators: bool,
    /// Whether operators pause the queue.
    pub(crate) pauses: bool,
    /// Of how many leases a reclaim takes care.
    pub(crate) reclaimed: usize,
    /// Whether there is a reclaimer in the fair schedule.
    pub(crate) reclaims: bool,
    /// Whether the run begins with two suspects.
    pub(crate) suspects: bool,
    /// Whether a ticket was lost before the run began.
    pub(crate) damaged: bool,
    pub(crate) rules: Rules,
}

/// An attempt that a worker makes, or has made and settles.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hand {
    pub(crate) handle: Handle,
    pub(crate) fence: Fence,
    /// How long it may run, by the worker's own clock.
    pub(crate) till: Ms,
    pub(crate) attempts: u32,
    pub(crate) suspect: bool,
    /// How it is settled, from the first try on: never another way under the same fence.
    pub(crate) word: Option<Word>,
}

/// A worker process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) session: Session,
    /// The number of its last claim.
    pub(crate) call: u64,
    /// That claim is not answered: it is repeated.
    pub(crate) asking: bool,
    pub(crate) hands: Vec<Hand>,
}

/// A submit that was made. Until its copies are too old, it may run again: as a repeat, or late.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Post {
    pub(crate) id: Id,
    pub(crate) generation: Generation,
    pub(crate) body: Body,
    pub(crate) deadline: Ms,
    /// Until when copies of it arrive.
    pub(crate) till: Ms,
    /// It was told of another generation.
    pub(crate) told: bool,
}

/// What became of a generation that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fate {
    pub(crate) handle: Handle,
    /// How it ended.
    pub(crate) record: Option<(Outcome, Answer)>,
    /// How often its lease ran out, without outage.
    pub(crate) lapses: u16,
    /// Its caller wants it stopped.
    pub(crate) stop: bool,
    /// Whose settle was the last that was carried out.
    pub(crate) settler: Option<Fence>,
}

/// What really happened, whatever the shard says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    pub(crate) fates: Map<Generation, Fate>,
    /// When somebody last renewed or reclaimed.
    pub(crate) beat: Option<Ms>,
    /// Whatever lease ended until then ended in an outage.
    pub(crate) pardon: Option<Ms>,
}

/// A step of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Leap {
    Back,
    Forward,
}

/// What an operator asks for, as often as it likes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// A dead one under this new generation.
    Redrive(Handle, Generation),
    /// A delayed one, seen to be due then, at once.
    RetryNow(Handle, Ms),
    /// A pause, or its end, in the place of that version.
    Pause(u64, bool),
}

/// The shard and all around it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) shard: State,
    pub(crate) workers: Vec<Worker>,
    /// A claim of a worker that crashed before it was answered; it may still arrive.
    pub(crate) stray: Option<Fence>,
    pub(crate) posts: Vec<Post>,
    pub(crate) wishes: Vec<Wish>,
    /// How many generations were named.
    pub(crate) generations: u32,
    /// What is surely on disk, where Redis forgets the rest.
    pub(crate) disk: Option<Box<(State, Ledger)>>,
    pub(crate) forgot: bool,
    pub(crate) leap: Option<Leap>,
    pub(crate) ledger: Ledger,
    /// How many faults may still happen.
    pub(crate) faults: Option<u8>,
    /// The invariant that is broken.
    pub(crate) wrong: Option<&'static str>,
}

/// The ids that there are; alike in all but their key.
pub(crate) fn id(number: u8) -> Id {
    Id(4 * number)
}

/// What an attempt of a generation is answered.
pub(crate) fn answer(generation: Generation) -> Answer {
    Answer(generation.0 as u8 + 1)
}

impl World {
    /// A queue that was declared, and nothing else.
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let policy = [
            ("capacity", 100),
            ("capacity_bytes", 1_000_000),
            ("dead_retention", RETENTION),
            ("max_lapses", bounds.max_lapses.into()),
            ("retention", RETENTION),
        ];
        let meta = Meta { policy: policy.into_iter().collect(), ..Meta::default() };
        let worker = |session| Worker {
            session: Session(session),
            call: 0,
            asking: false,
            hands: Vec::new(),
        };
        Self {
            shard: State { meta, rules: bounds.rules, ..State::default() },
            workers: (0..bounds.workers).map(worker).collect(),
            stray: None,
            posts: Vec::new(),
            wishes: Vec::new(),
            generations: 0,
            disk: None,
            forgot: false,
            leap: None,
            ledger: Ledger::default(),
            faults: bounds.faults,
            wrong: None,
        }
    }

    /// A new generation's name.
    pub(crate) fn name(&mut self) -> Generation {
        self.generations += 1;
        Generation(self.generations)
    }

    /// Uses up a fault. Says whether there was one left.
    pub(crate) fn fault(&mut self) -> bool {
        match &mut self.faults {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }
}

impl Post {
    pub(crate) fn item(&self) -> Item {
        Item {
            id: self.id,
            generation: self.generation,
            body: self.body,
            deadline: self.deadline,
            not_before: 0,
            tail: false,
            limits: None,
        }
    }
}
