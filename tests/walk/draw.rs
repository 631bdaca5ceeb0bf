//! Draws the next call of a walk: mostly one that makes sense, often one that came too late, names what is not there, or
//! names it wrongly.

use holdfast_model::{
    call::{Call, Claim, Item, Limits, Overrule, Settle},
    state::{Answer, Body, Fence, Generation, Handle, Home, Id, Ms, NOBODY, Session, State, Word},
};

use crate::{dice::Dice, scripts::SCRIPTS, world::Slant};

const LEASE: Ms = 10_000;
const LONG_LEASE: Ms = 16_000;
/// Fewer than a sweep looks at in one call.
const SESSIONS: usize = 4;
const POLICY: [(&str, &[u64]); 6] = [
    ("max_lapses", &[4, 5, 6]),
    ("retention", &[600_000, 900_000]),
    ("dead_retention", &[1_000_000, 600_000]),
    ("capacity", &[2, 5, 100]),
    ("capacity_bytes", &[700, 2_000, 1_000_000]),
    ("in_flight", &[1, 2, 3]),
];

/// What a walk remembers of its way: the source of late copies.
#[derive(Default)]
pub(crate) struct Past {
    pub(crate) calls: Vec<Call>,
    pub(crate) handles: Vec<Handle>,
    pub(crate) leases: Vec<(Fence, Handle)>,
    /// An id whose ticket was lost just now: it is free, though its old handle is still somewhere.
    pub(crate) lost: Option<Id>,
    generations: u32,
}

impl Past {
    fn new_generation(&mut self) -> Generation {
        self.generations += 1;
        Generation(self.generations)
    }
}

/// Everything that a draw looks at.
pub(crate) struct Draw<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) state: &'a State,
    pub(crate) past: &'a mut Past,
    pub(crate) now: Ms,
    pub(crate) slant: Slant,
    /// The script that is drawn more often than others.
    pub(crate) favourite: Option<&'static str>,
}

const WEIGHTS: [(usize, &str); 17] = [
    (16, "submit"),
    (20, "claim"),
    (8, "renew"),
    (18, "settle"),
    (6, "cancel"),
    (6, "redrive"),
    (10, "reclaim"),
    (5, "promote"),
    (4, "expire"),
    (5, "sweep"),
    (4, "read"),
    (3, "policy"),
    (3, "overrule"),
    (3, "register"),
    (1, "ring"),
    (2, "depth"),
    // Drawn apart, below: it only reads, and what is hunted by others is not to change with it.
    (0, "audit"),
];

impl Draw<'_> {
    pub(crate) fn call(&mut self) -> Call {
        if let Some(id) = self.past.lost.take() {
            return Call::Submit { guard: 600_000, items: vec![self.item(id)] };
        }
        let script = match self.favourite {
            Some(script) if self.dice.one_in(3) => script,
            // What the favourite needs to show its faults.
            Some("redrive") if self.dice.one_in(4) => "settle",
            Some("settle") if self.dice.one_in(6) => "cancel",
            Some("depth") if self.dice.one_in(4) => "overrule",
            // A limit below what is leased already.
            Some("claim") if self.slant == Slant::Worn && self.dice.one_in(10) => "overrule",
            None if self.dice.one_in(40) => "audit",
            // What is left of what was lost is met where its lease lapses, or its retention ends.
            None if self.slant == Slant::Damaged && self.dice.one_in(4) => {
                self.dice.of(&["reclaim", "sweep"])
            }
            _ => self.dice.weighed(&WEIGHTS),
        };
        let script = self.useful(script);
        let call = self.call_of(script);
        let often = match self.favourite {
            // What it needs to be spoiled is left whole.
            Some(script) if self.slant == Slant::Spoiled && call.script() != script => 60,
            _ if self.slant == Slant::Spoiled => 2,
            _ => 30,
        };
        let spoils = !matches!(call, Call::Ring | Call::Depth) && self.dice.one_in(often);
        if spoils && can_be_spoiled(&call) {
            return Call::Spoiled { call: Box::new(call), way: self.dice.below(60) };
        }
        call
    }

    /// Mostly, what a script works on is made first.
    fn useful(&mut self, script: &'static str) -> &'static str {
        let (has, maker) = match script {
            "claim" => (self.state.live() > 0, "submit"),
            "renew" | "settle" | "reclaim" => (!self.state.leases().is_empty(), "claim"),
            "promote" => (!self.state.line(Home::Delayed).is_empty(), "submit"),
            "redrive" => (!self.state.line(Home::Dead).is_empty(), "settle"),
            _ => (true, script),
        };
        if has || self.dice.one_in(6) { script } else { self.useful(maker) }
    }

    pub(crate) fn call_of(&mut self, script: &str) -> Call {
        match script {
            "submit" => self.submit(),
            "claim" => self.claim(),
            "renew" => Call::Renew { lease: self.lease(), leases: self.rows(Self::lease_named) },
            "settle" if !self.state.leases().is_empty() && self.dice.one_in(4) => {
                let leases = self.all_leases();
                Call::Settle(leases.into_iter().map(|lease| self.settle_of(lease)).collect())
            }
            "settle" => Call::Settle(self.rows(Self::settle)),
            "cancel" => Call::Cancel(self.rows(Self::cancelled)),
            "redrive" => self.redrive(),
            "reclaim" => {
                let named = match self.dice.below(6) {
                    0 => self.rows(Self::lease_named),
                    1 => self.all_leases(),
                    _ => Vec::new(),
                };
                Call::Reclaim { limit: self.dice.of(&[1, 2, 256]), named }
            }
            "promote" => {
                let named = match self.dice.below(5) {
                    0 => self.rows(Self::promoted),
                    1 | 2 => self.all_delayed(),
                    _ => Vec::new(),
                };
                Call::Promote { limit: self.dice.of(&[1, 2, 256]), named }
            }
            "expire" => Call::Expire { limit: self.dice.of(&[1, 2, 128]) },
            "sweep" => Call::Sweep {
                limit: self.dice.of(&[1, 2, 128]),
                age: self.dice.of(&[600_000, 600_000, 20_000]),
            },
            "read" => {
                let most = 1 << 20;
                let sizes = [(0, most), (100, most), (1000, most), (100, 1), (1000, 300)];
                let (whole, room) = self.dice.of(&sizes);
                let tick = self.dice.one_in(2);
                Call::Read { whole, tick, room, ids: self.rows(Self::read_of) }
            }
            "policy" => self.policy(),
            "overrule" => self.overrule(),
            "register" => self.register(),
            "ring" => Call::Ring,
            "audit" => Call::Audit(self.rows(Self::read_of)),
            _ => Call::Depth,
        }
    }

    fn rows<T>(&mut self, mut row: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.dice.of(&[1, 1, 2, 3, 5]);
        (0..count).map(|_| row(self)).collect()
    }

    fn id(&mut self) -> Id {
        Id(self.dice.below(if self.crowded() { 110 } else { 7 }) as u8)
    }

    fn crowded(&self) -> bool {
        self.slant == Slant::Crowded
    }

    fn lease(&mut self) -> Ms {
        self.dice.of(&[LEASE, LEASE, LONG_LEASE])
    }

    /// A handle that is somewhere; or one of the past; or one that never was.
    fn handle(&mut self) -> Handle {
        let there: Vec<Handle> = self.state.homes.keys().copied().collect();
        let past = self.dice.any(&self.past.handles);
        let handle = if self.dice.one_in(5) { past } else { self.dice.any(&there).or(past) };
        let nobody = Handle { sequence: 7, generation: Generation(0), id: self.id() };
        let mut handle = handle.unwrap_or(nobody);
        if self.dice.one_in(20) {
            handle.generation.0 += 1000;
        }
        handle
    }

    /// A lease that is held; or one of the past; or a handle with a fence that is not its own.
    fn lease_named(&mut self) -> (Fence, Handle) {
        let held: Vec<_> =
            self.state.leases().into_iter().map(|(_, fence, handle)| (fence, handle)).collect();
        let past = self.dice.any(&self.past.leases);
        let lease = if self.dice.one_in(5) { past } else { self.dice.any(&held).or(past) };
        let (fence, handle) = lease.unwrap_or((self.fence(1), self.handle()));
        match self.dice.below(20) {
            0 => (self.fence(fence.call), handle),
            1 => (fence, self.handle()),
            2 => (NOBODY, handle),
            _ => (fence, handle),
        }
    }

    fn fence(&mut self, call: u64) -> Fence {
        Fence { session: Session(self.dice.below(SESSIONS) as u8), call }
    }

    fn submit(&mut self) -> Call {
        if self.crowded() && self.dice.one_in(3) {
            return self.submit_many_due_at_once();
        }
        let count =
            if self.crowded() && self.dice.one_in(2) { 70 } else { self.dice.of(&[1, 1, 2, 4]) };
        let ids = (0..count).map(|_| self.id()).collect::<Vec<_>>();
        let items = ids.into_iter().map(|id| self.item(id)).collect();
        Call::Submit { guard: 600_000, items }
    }

    /// More than one call promotes.
    fn submit_many_due_at_once(&mut self) -> Call {
        let mut items: Vec<Item> = (0..100).map(|id| self.item(Id(id))).collect();
        let start = self.now + 4_000;
        let late = items.iter_mut().filter(|item| item.deadline > start);
        late.for_each(|item| item.not_before = start);
        Call::Submit { guard: 600_000, items }
    }

    fn item(&mut self, id: Id) -> Item {
        let own = Body(id.0 % 4);
        let deadline =
            self.now + self.dice.of(&[300, 8_000, 15_000, 60_000, 60_000, 200_000, 3_600_000]);
        let start = self.now + self.dice.of(&[1_000, 4_000, 30_000]);
        let deadline = match self.dice.below(30) {
            0 => self.now - 1_000,
            1 => self.now + self.dice.below(5) as Ms,
            _ => deadline,
        };
        let delayed = if self.favourite == Some("promote") { 50 } else { 20 };
        let not_before = match self.dice.below(80) {
            0 => deadline,
            drawn if drawn < delayed => start.min(deadline - 1),
            _ => 0,
        };
        Item {
            id,
            generation: self.past.new_generation(),
            body: if self.dice.one_in(5) { Body(self.dice.below(4) as u8) } else { own },
            deadline,
            not_before,
            tail: id.0.is_multiple_of(3),
            limits: self.limits(),
        }
    }

    /// Now and then a lane has limits, and each producer may have others.
    fn limits(&mut self) -> Option<Limits> {
        let seldom = if self.slant == Slant::Tight { 2 } else { 5 };
        self.dice.one_in(seldom).then(|| Limits {
            requests: self.dice.of(&[0, 0, 1, 2, 3]),
            bytes: self.dice.of(&[0, 0, 250, 600, 1_000]),
            rate: self.dice.of(&[0, 0, 1, 2, 3, 700]),
        })
    }

    fn claim(&mut self) -> Call {
        let session = Session(self.dice.below(SESSIONS - 1) as u8);
        let last = self.state.sessions.get(&session).map_or(0, |row| row.call);
        let call = match self.dice.below(10) {
            0..=2 => last,
            3 => last.saturating_sub(1),
            4 => last + 0x0f,
            _ => last + 1,
        };
        Call::Claim(Claim {
            fence: Fence { session, call: call.max(1) },
            free: self.dice.of(&[0, 1, 1, 2, 2, 3, 8, 256]),
            lease: self.lease(),
            budget: self.dice.of(&[0, 100, 300, 1_000_000, 1_000_000, 1_000_000]),
            may_suspect: self.dice.one_in(2),
            trusted_until: self.now + self.dice.of(&[0, 1, 2, 3, 60_000, 60_000, 60_000, 60_000])
                - self.dice.of(&[0, 0, 0, 70_000]),
            along: self.dice.of(&[0, 40, 41, 200, 1_000_000]),
        })
    }

    /// As a worker does that ends.
    fn all_leases(&mut self) -> Vec<(Fence, Handle)> {
        let leases = self.state.leases().into_iter().take(8);
        leases.map(|(_, fence, handle)| (fence, handle)).collect()
    }

    fn settle(&mut self) -> Settle {
        let lease = self.lease_named();
        self.settle_of(lease)
    }

    fn settle_of(&mut self, (fence, handle): (Fence, Handle)) -> Settle {
        let word = self.dice.of(&[
            Word::Ack,
            Word::Retry,
            Word::Retry,
            Word::Release,
            Word::Bury,
            Word::Bury,
        ]);
        let failure = (1 + self.dice.below(15) as u8, self.dice.of(&[0, 429, 503]));
        let answer = Answer(self.dice.below(4) as u8);
        let (number, fails, answers) = match word {
            Word::Ack => (self.dice.of(&[200, 404, 65_535]), self.dice.one_in(3), true),
            Word::Retry => (self.wait(handle), true, false),
            Word::Release => (self.dice.of(&[0, 0, 1, 100_000]), self.dice.one_in(2), false),
            Word::Bury => (self.dice.of(&[4, 5, 6, 7]), self.dice.one_in(2), self.dice.one_in(2)),
        };
        let (failure, answer) = (fails.then_some(failure), answers.then_some(answer));
        Settle { fence, handle, word, number, failure, answer }
    }

    /// How long a retry waits; now and then just until the deadline.
    fn wait(&mut self, handle: Handle) -> Ms {
        let deadline = self.state.readable(handle.id).map_or(0, |ticket| ticket.deadline);
        let left = deadline.saturating_sub(self.now + self.dice.below(5) as Ms);
        self.dice.of(&[0, 500, 4_000, 20_000, 100_000, left, left])
    }

    /// What runs is cancelled more often than what waits.
    fn cancelled(&mut self) -> Handle {
        let leases = self.state.leases();
        let leased = self.dice.any(&leases).map(|(.., handle)| handle);
        if self.dice.one_in(3) { leased } else { None }.unwrap_or_else(|| self.handle())
    }

    /// What has ended is read more often than what has not.
    fn read_of(&mut self) -> Id {
        let ended: Vec<Id> = self.state.records.keys().copied().collect();
        let ended = self.dice.any(&ended);
        if self.dice.one_in(2) { ended } else { None }.unwrap_or_else(|| self.id())
    }

    fn redrive(&mut self) -> Call {
        let dead: Vec<Handle> = self.state.line(Home::Dead).into_iter().map(|(_, it)| it).collect();
        if self.dice.one_in(3) && !dead.is_empty() {
            return Call::Redrive(dead.into_iter().map(|handle| self.redriven(handle)).collect());
        }
        Call::Redrive(self.rows(|draw| {
            let one = draw.dice.any(&dead);
            let one = if draw.dice.one_in(4) { None } else { one };
            let handle = one.unwrap_or_else(|| draw.handle());
            draw.redriven(handle)
        }))
    }

    fn redriven(&mut self, handle: Handle) -> (Handle, Generation, Ms) {
        let there = self.state.readable(handle.id).map(|ticket| ticket.generation);
        let generation = match there {
            // Its own repeat: the generation that is there already.
            Some(generation) if self.dice.one_in(8) => generation,
            _ => self.past.new_generation(),
        };
        let deadline = self.dice.of(&[0, 0, self.now + 15_000, self.now + 60_000, self.now - 1]);
        (handle, generation, deadline)
    }

    fn promoted(&mut self) -> (Handle, Ms) {
        let delayed = self.state.line(Home::Delayed);
        match self.dice.any(&delayed) {
            Some((due, handle)) if !self.dice.one_in(6) => {
                (handle, if self.dice.one_in(4) { due + 1 } else { due })
            }
            // Scored by something, but not by a due time.
            _ => {
                let handle = self.handle();
                (handle, self.state.homes.get(&handle).map_or(self.now, |spot| spot.till))
            }
        }
    }

    /// As an operator does who wants no more waiting.
    fn all_delayed(&mut self) -> Vec<(Handle, Ms)> {
        let line = self.state.line(Home::Delayed).into_iter().take(8);
        line.map(|(due, handle)| (handle, due)).collect()
    }

    /// The policy with which a walk begins: nearly always whole.
    pub(crate) fn first_policy(&mut self) -> Call {
        let mut rows: Vec<_> = Vec::new();
        for (field, values) in POLICY {
            let value = match self.slant {
                Slant::Crowded => values[values.len() - 1],
                Slant::Tight => self.dice.of(&[values[0], values[values.len() - 1]]),
                _ => self.dice.of(values),
            };
            rows.push((field, Some(value)));
        }
        let unlimited = self.crowded() || !self.dice.one_in(3);
        rows.retain(|(field, _)| *field != "in_flight" || !unlimited);
        Call::Policy { schema: 1, write: true, rows }
    }

    fn policy(&mut self) -> Call {
        let mut rows = Vec::new();
        for (field, values) in POLICY {
            if self.dice.one_in(3) {
                let clears = field == "in_flight" && self.dice.one_in(2) || self.dice.one_in(8);
                rows.push((field, (!clears).then(|| self.dice.of(values))));
            }
        }
        let schema = if self.dice.one_in(16) { 2 } else { 1 };
        Call::Policy { schema, write: !self.dice.one_in(4), rows }
    }

    fn overrule(&mut self) -> Call {
        let field = self.dice.of(&["paused", "limit"]);
        let kept = self.state.meta.overrides.get(field).cloned().unwrap_or_default();
        // Most pauses end soon, or little else would happen.
        let clears = kept.value.is_some() && !self.dice.one_in(5);
        let value = match field {
            _ if clears => None,
            "paused" => Some(1),
            _ => Some(self.dice.of(&[1, 2, 3])),
        };
        let shards = self.dice.of(&[2, 2, 3]);
        let total = value.filter(|_| field == "limit").map(|share| shards * share);
        let version = match self.dice.below(6) {
            0 => kept.version.saturating_sub(1),
            1 => kept.version + 1,
            2 => kept.version + 2,
            _ => kept.version,
        };
        let (value, total) =
            if self.dice.one_in(6) { (kept.value, kept.total) } else { (value, total) };
        let total = if self.dice.one_in(12) { kept.total.map(|total| total + 1) } else { total };
        Call::Overrule(Overrule { field, decide: self.dice.one_in(2), version, value, total })
    }

    fn register(&mut self) -> Call {
        let (name, value) = (self.dice.below(3) as u8, self.dice.of(&[1, 1, 2]));
        if self.dice.one_in(2) {
            return Call::RegisterQueue { name, value };
        }
        let age = self.dice.of(&[20_000, 600_000]);
        // Drawn by no die of its own, so that all other calls of a walk stay what they were.
        if (value, age) == (2, 600_000) {
            return Call::EndWorker { name, age };
        }
        Call::RegisterWorker { name, value, age }
    }
}

/// Whether there is an argument to spoil: rows, if the script takes some.
fn can_be_spoiled(call: &Call) -> bool {
    let well_formed = |items: &[Item]| items.iter().all(|item| item.not_before < item.deadline);
    match call {
        Call::Submit { items, .. } => well_formed(items),
        _ => true,
    }
}

/// The scripts that are drawn are those that there are.
#[test]
fn every_script_is_drawn() {
    assert_eq!(WEIGHTS.map(|(_, script)| script), SCRIPTS);
}
