//! The invariants: each call is judged by what was before it, what it answered and what it left; then the whole state is.

use holdfast_model::{
    call::{Call, Settle},
    invariants,
    reply::{Part, Reply},
    state::{Handle, Home, Ms, Named, Outcome, Paper, State, Word},
};

use crate::{
    step::{leases, settle},
    world::{Fate, LEASE, Leap, NOW, UNIT, World, answer},
};

/// The protocol's numbers and names of what must hold.
pub(crate) const ONE_HOME: &str = "1 one home";
pub(crate) const ONE_RECORD: &str = "2 one terminal record";
pub(crate) const FENCED: &str = "3 fenced";
pub(crate) const NOTHING_LOST: &str = "4 nothing is lost";
pub(crate) const REPEATABLE: &str = "5 repeatable";
pub(crate) const CLOCK: &str = "7 one clock";
pub(crate) const ORDER: &str = "8 order";
pub(crate) const UNBLOCKED: &str = "9 no request blocks another";
pub(crate) const OUTAGE: &str = "15 an outage is nobody's fault";
pub(crate) const OWNED: &str = "a lease has an owner";
pub(crate) const BOUNDED: &str = "lapses are bounded";
pub(crate) const SUSPECTS: &str = "suspects one at a time";
pub(crate) const ID_RULE: &str = "id rule";
pub(crate) const CANCEL: &str = "cancel";
pub(crate) const NAMED: &str = "late copies name what they mean";
pub(crate) const COUNTED: &str = "what is held is counted";

/// All of them.
pub(crate) const INVARIANTS: [&str; 16] = [
    ONE_HOME,
    ONE_RECORD,
    FENCED,
    NOTHING_LOST,
    REPEATABLE,
    CLOCK,
    ORDER,
    UNBLOCKED,
    OUTAGE,
    OWNED,
    BOUNDED,
    SUSPECTS,
    ID_RULE,
    CANCEL,
    NAMED,
    COUNTED,
];

impl World {
    /// Runs a call on the shard, and judges it.
    pub(crate) fn call(&mut self, call: Call) -> Reply {
        let before = self.shard.clone();
        let reply = self.shard.step(&call, NOW);
        let found = self.judge(&before, &call, &reply).err();
        let followed = self.follow(&call, &reply).err();
        let again = self.repeats(&before, &call).err();
        self.wrong = self.wrong.or(found).or(followed).or(again);
        reply
    }

    /// The same call a second time changes nothing.
    fn repeats(&self, before: &State, call: &Call) -> Result<(), &'static str> {
        let batch = matches!(call, Call::Reclaim { .. } | Call::Promote { .. });
        if batch || *before == self.shard {
            return Ok(());
        }
        let mut again = self.shard.clone();
        again.step(call, NOW);
        again.bell = self.shard.bell;
        holds(again == self.shard, REPEATABLE)
    }

    fn judge(&mut self, before: &State, call: &Call, reply: &Reply) -> Result<(), &'static str> {
        match call {
            Call::Submit { items, .. } => {
                let word = reply.words().next();
                let fate = self.ledger.fates.get(&items[0].generation);
                let kept = fate.is_some_and(|fate| before.homes.contains_key(&fate.handle));
                holds(!kept || word == Some("known"), ID_RULE)?;
                let told = self.posts.iter().find(|post| post.generation == items[0].generation);
                let told = told.is_some_and(|post| post.told);
                holds(!told || word != Some("accepted"), ID_RULE)?;
                if let [Part::Word("known"), _, Part::Ticket(ticket)] = &reply.answers[0][..] {
                    holds(ticket.body == Some(items[0].body), ID_RULE)?;
                }
                Ok(())
            }
            Call::Claim(claim) => {
                holds(claim.may_end(NOW) || reply.ended.is_empty(), CLOCK)?;
                let row = before.sessions.get(&claim.fence.session);
                let again = row.is_some_and(|row| row.call == claim.fence.call);
                let mut held = leases(reply).map(|(handle, ..)| before.holds(claim.fence, handle));
                if again {
                    return holds(held.all(|held| held), FENCED);
                }
                let alone = claim.may_suspect || !leases(reply).any(|(_, _, suspect, _)| suspect);
                holds(alone, SUSPECTS)?;
                self.claimed_in_order(reply, claim.free)
            }
            Call::Renew { leases, .. } => {
                self.beat();
                let owned = |lease: &(_, Handle)| before.holds(lease.0, lease.1);
                let ours: Vec<_> = leases.iter().filter(|lease| owned(lease)).collect();
                let kept = |lease: &(_, Handle)| {
                    let there = |shard: &State| shard.homes.get(&lease.1).copied();
                    ours.iter().any(|ours| ours.1 == lease.1) || there(before) == there(&self.shard)
                };
                holds(leases.iter().all(kept), FENCED)
            }
            Call::Settle(rows) => self.settled(before, &rows[0], reply),
            Call::Cancel(handles) => {
                let live = |spot: &holdfast_model::state::Spot| !spot.home.is_end();
                if let Some(Part::Word("asked")) = reply.answers[0].first() {
                    self.fate(handles[0], |fate| fate.stop = true);
                }
                let there = before.homes.get(&handles[0]).is_some_and(live);
                holds(there || *before == self.shard, NAMED)
            }
            Call::Redrive(rows) => {
                let dead = before.homes.get(&rows[0].0).is_some_and(|spot| spot.home == Home::Dead);
                holds(dead || *before == self.shard, NAMED)
            }
            Call::Promote { named, .. } if !named.is_empty() => {
                let (handle, due) = named[0];
                let seen = before.homes.get(&handle).is_some_and(|spot| spot.till == due);
                holds(seen || *before == self.shard, NAMED)
            }
            Call::Overrule(word) => {
                let kept = before.meta.overrides.get(word.field).map_or(0, |kept| kept.version);
                holds(kept == word.version || before.meta == self.shard.meta, NAMED)
            }
            Call::Reclaim { .. } => self.reclaimed(before, reply),
            _ => Ok(()),
        }
    }

    /// The earliest deadlines were leased, and as many as there was room for.
    fn claimed_in_order(&self, reply: &Reply, free: u64) -> Result<(), &'static str> {
        let waiting = self.shard.line(Home::Pending).into_iter().find(|(at, _)| *at > NOW);
        let Some(first) = waiting else { return Ok(()) };
        let paused = self.shard.overruled("paused").is_some();
        let taken: Vec<Handle> = leases(reply).map(|(handle, ..)| handle).collect();
        let stale = reply.words().any(|word| word == "stale");
        holds(paused || stale || taken.len() as u64 >= free, UNBLOCKED)?;
        let place = |handle: &Handle| match self.shard.ticket(*handle) {
            Named::This(ticket) => (ticket.deadline, *handle),
            _ => first,
        };
        holds(taken.iter().all(|handle| place(handle) <= first), ORDER)
    }

    fn settled(&mut self, before: &State, row: &Settle, reply: &Reply) -> Result<(), &'static str> {
        let held = before.holds(row.fence, row.handle);
        holds(held || *before == self.shard, FENCED)?;
        if !held {
            // However it would be settled.
            for word in [Word::Ack, Word::Retry, Word::Release, Word::Bury] {
                let mut shard = before.clone();
                shard.step(&Call::Settle(vec![settle(row.fence, row.handle, word)]), NOW);
                holds(shard == *before, FENCED)?;
            }
        }
        let mut last = None;
        self.fate(row.handle, |fate| last = fate.settler);
        let there = matches!(before.ticket(row.handle), Named::This(_));
        let word = reply.words().next();
        if !held && there && last == Some(row.fence) {
            holds(word == Some("already"), REPEATABLE)?;
        }
        if held {
            let mut stop = false;
            self.fate(row.handle, |fate| {
                (fate.settler, stop) = (Some(row.fence), fate.stop);
            });
            let tried_again = matches!(row.word, Word::Retry | Word::Release);
            holds(!(stop && tried_again) || word == Some("ended"), CANCEL)?;
        }
        Ok(())
    }

    fn reclaimed(&mut self, before: &State, reply: &Reply) -> Result<(), &'static str> {
        self.beat();
        let pardon = self.ledger.pardon;
        for answer in &reply.answers {
            let (handle, end, charge) = match answer.as_slice() {
                [Part::Word("returned"), Part::Handle(handle), Part::Word(charge)] => {
                    (*handle, None, *charge)
                }
                [
                    Part::Word("ended"),
                    Part::Handle(handle),
                    Part::Number(end),
                    Part::Word(charge),
                ] => (*handle, Some(*end), *charge),
                _ => continue,
            };
            let till = before.homes.get(&handle).map_or(NOW, |spot| spot.till);
            let pardoned = pardon.is_some_and(|to| till <= to);
            holds(self.leap.is_some() || !(pardoned && charge == "lapse"), OUTAGE)?;
            let mut stop = false;
            self.fate(handle, |fate| {
                fate.lapses += u16::from(charge == "lapse");
                stop = fate.stop;
            });
            let cancelled = end == Some(Outcome::Cancelled as i64);
            holds(!stop || cancelled, CANCEL)?;
        }
        let far = |till: Ms| till > NOW + self.shard.meta.longest_lease.unwrap_or(till);
        holds(!self.shard.leases().iter().any(|(till, ..)| far(*till)), CLOCK)
    }

    /// Somebody renews or reclaims.
    fn beat(&mut self) {
        let last = self.ledger.beat.replace(NOW);
        if last.is_some_and(|at| at + UNIT < NOW) && self.shard.meta.longest_lease.is_some() {
            self.ledger.pardon = Some(NOW + UNIT);
        }
    }

    fn fate(&mut self, handle: Handle, with: impl FnOnce(&mut Fate)) {
        if let Some(fate) = self.ledger.fates.get_mut(&handle.generation) {
            with(fate);
        }
    }

    /// What was accepted is there or has ended, once.
    fn follow(&mut self, call: &Call, reply: &Reply) -> Result<(), &'static str> {
        for answer in &reply.answers {
            if let [Part::Word("accepted" | "redriven"), Part::Ticket(ticket)] = answer.as_slice() {
                let holdfast_model::state::Names::Of(id) = ticket.names else { continue };
                let handle = ticket.handle(id);
                let fate = Fate { handle, record: None, lapses: 0, stop: false, settler: None };
                let old = self.ledger.fates.insert(handle.generation, fate);
                holds(old.is_none_or(|old| old.record.is_none()), ONE_RECORD)?;
            }
        }
        let shard = &self.shard;
        for (generation, fate) in self.ledger.fates.iter_mut() {
            let live = shard.homes.get(&fate.handle).is_some_and(|spot| !spot.home.is_end());
            let record = shard.records.get(&fate.handle.id);
            let record = record.filter(|record| record.generation == *generation);
            let told = record.map(|record| (record.outcome, record.answer));
            match (fate.record, told) {
                (None, None) => {
                    let whole = matches!(shard.ticket(fate.handle), Named::This(_))
                        && shard.requests.contains_key(&fate.handle.id);
                    holds(live && whole, NOTHING_LOST)?;
                }
                (None, Some((outcome, of))) => {
                    holds(outcome != Outcome::Answered || of == answer(*generation), FENCED)?;
                    let asked = fate.stop || matches!(call, Call::Cancel(_));
                    holds(outcome != Outcome::Cancelled || asked, CANCEL)?;
                    *fate = Fate { record: told, lapses: 0, stop: false, ..fate.clone() };
                }
                (Some(first), told) => {
                    holds(!live && told.is_none_or(|told| told == first), ONE_RECORD)?;
                }
            }
        }
        Ok(())
    }

    /// Judges the state as it is.
    pub(crate) fn judge_state(&self, damaged: bool) -> Result<(), &'static str> {
        if !damaged {
            invariants::broken(&self.shard).map_err(|what| named(&what))?;
        }
        let most = self.shard.policy("max_lapses").unwrap_or(0);
        for (_, fate) in &self.ledger.fates {
            holds(u64::from(fate.lapses) < most, BOUNDED)?;
        }
        for (_, paper) in &self.shard.tickets {
            if let Paper::Whole(ticket) = paper {
                let bounded = u64::from(ticket.forgiven) <= 4 * most;
                holds(u64::from(ticket.lapses) <= most && bounded, BOUNDED)?;
            }
        }
        for (till, _, handle) in self.shard.leases() {
            let deadline = self.shard.readable(handle.id).map_or(till, |ticket| ticket.deadline);
            holds(till <= deadline + LEASE, NOTHING_LOST)?;
        }
        self.owners()
    }

    /// Each running lease is known to its worker, or will be told it; and what a worker holds by its own clock is its.
    fn owners(&self) -> Result<(), &'static str> {
        if self.forgot || self.leap == Some(Leap::Forward) {
            return Ok(());
        }
        // A clock that went back prolongs what was lost already.
        let leases = if self.leap.is_none() { self.shard.leases() } else { Vec::new() };
        for (till, fence, handle) in leases {
            let owner = self.workers.iter().find(|worker| worker.session == fence.session);
            let Some(owner) = owner.filter(|_| till > NOW) else { continue };
            let asked = owner.asking && owner.call == fence.call;
            let known = owner.hands.iter().any(|hand| (hand.fence, hand.handle) == (fence, handle));
            holds(asked || known, OWNED)?;
        }
        for hand in self.workers.iter().flat_map(|worker| &worker.hands) {
            let runs = hand.word.is_none() && hand.till > NOW;
            holds(!runs || self.shard.holds(hand.fence, hand.handle), OWNED)?;
        }
        Ok(())
    }
}

fn holds(right: bool, what: &'static str) -> Result<(), &'static str> {
    if right { Ok(()) } else { Err(what) }
}

/// The invariant that a sentence of [`invariants::broken`] speaks of.
fn named(what: &str) -> &'static str {
    let prefixes = [
        ("one record", ONE_RECORD),
        ("fenced", FENCED),
        ("nothing is lost", NOTHING_LOST),
        ("order", ORDER),
        ("one suspect", SUSPECTS),
        ("a suspect", SUSPECTS),
        ("what is no suspect", SUSPECTS),
        ("bytes", COUNTED),
        ("lanes", COUNTED),
    ];
    let found = prefixes.into_iter().find(|(prefix, _)| what.starts_with(prefix));
    found.map_or(ONE_HOME, |(_, name)| name)
}
