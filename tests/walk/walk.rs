//! Walks: random calls on a real server and on the model, which must agree on every answer, every message, and every byte
//! that is left behind.

use std::{collections::BTreeMap, fmt};

use holdfast_model::{
    call::Call,
    invariants::{self, Ledger},
    reply::Reply,
    state::State,
    value::show,
};

use crate::{
    dice::Dice,
    draw::{Draw, Past},
    server::{Outcome, Server},
    world::{Event, Slant},
};

/// How a walk goes.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    /// A script to draw more often than others.
    pub(crate) favourite: Option<&'static str>,
    /// What it is inclined to; none: that is drawn too.
    pub(crate) slant: Option<Slant>,
}

/// How often a walk is inclined to something.
const SLANTS: [(usize, Slant); 6] = [
    (12, Slant::Even),
    (6, Slant::Damaged),
    (2, Slant::Spoiled),
    (1, Slant::Crowded),
    (3, Slant::Worn),
    (2, Slant::Tight),
];

/// One step, as it is told when something is wrong.
enum Done {
    Call(Call),
    Event(Event),
}

/// A walk on which model and server parted.
pub(crate) struct Parted {
    seed: u64,
    pub(crate) call: usize,
    done: Vec<Done>,
    why: String,
}

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HOLDFAST_SEED={} parts at call {}:", self.seed, self.call)?;
        for (number, done) in self.done.iter().enumerate() {
            match done {
                Done::Call(call) => writeln!(f, "{number:4} {call:?}")?,
                Done::Event(event) => writeln!(f, "{number:4} -- {event:?}")?,
            }
        }
        f.write_str(&self.why)
    }
}

/// How often each script gave each of its answers.
pub(crate) type Tally = BTreeMap<(&'static str, &'static str), usize>;

pub(crate) struct Walk<'a> {
    server: &'a mut Server,
    tally: &'a mut Tally,
    plan: Plan,
    dice: Dice,
    state: State,
    past: Past,
    ledger: Ledger,
    done: Vec<Done>,
    calls: usize,
    /// The model went on without the server, which gets its state with the next call.
    dirty: bool,
    slant: Slant,
    damaged: bool,
}

impl<'a> Walk<'a> {
    fn new(server: &'a mut Server, tally: &'a mut Tally, plan: Plan) -> Self {
        let mut dice = Dice::new(plan.seed);
        let slant = plan.slant.unwrap_or_else(|| dice.weighed(&SLANTS));
        Self {
            server,
            tally,
            plan,
            dice,
            state: State::default(),
            past: Past::default(),
            ledger: Ledger::default(),
            done: Vec::new(),
            calls: 0,
            dirty: true,
            slant,
            damaged: false,
        }
    }

    /// Goes to the end. Says how many calls were made.
    fn go(mut self) -> Result<usize, Box<Parted>> {
        let began = self.begin();
        let went = began.and_then(|()| (0..self.plan.steps).try_for_each(|_| self.step()));
        let Self { plan: Plan { seed, .. }, calls, done, .. } = self;
        went.map(|()| calls).map_err(|why| Box::new(Parted { seed, call: calls, done, why }))
    }

    /// A queue is declared before it is used; nearly always.
    fn begin(&mut self) -> Result<(), String> {
        if self.dice.one_in(12) {
            return Ok(());
        }
        let policy = self.draw().first_policy();
        self.call(policy)
    }

    fn step(&mut self) -> Result<(), String> {
        // What must happen at a certain moment is decided before time is made to reach it.
        let call = self.draw().call();
        if self.dice.one_in(3) {
            self.happen();
        }
        self.call(call.clone())?;
        if self.dice.one_in(6) {
            self.call(call)?;
        }
        if self.dice.one_in(8)
            && let Some(late) = self.dice.any(&self.past.calls)
        {
            self.call(late)?;
        }
        Ok(())
    }

    fn draw(&mut self) -> Draw<'_> {
        Draw {
            dice: &mut self.dice,
            state: &self.state,
            past: &mut self.past,
            now: self.server.now(),
            slant: self.slant,
            favourite: self.plan.favourite,
        }
    }

    fn happen(&mut self) {
        let now = self.server.now();
        let target = self.target();
        let Some(event) = Event::draw(&mut self.dice, &self.state, now, (self.slant, target))
        else {
            return;
        };
        let by = event.happen(&mut self.state, now);
        self.ledger.pass(by);
        self.past.calls.iter_mut().for_each(|call| call.pass(by));
        self.damaged |= event.damages();
        self.dirty = true;
        if let Event::Damage { id, broken: None } = event {
            self.past.lost = Some(id);
        }
        self.done.push(Done::Event(event));
    }

    /// The home in which damage is done: where it shows in the favourite's calls, or in any other.
    fn target(&mut self) -> &'static str {
        match self.plan.favourite {
            Some("claim") => "pending",
            Some("promote") => "delayed",
            Some("redrive") => "dead",
            Some("sweep") => self.dice.of(&["finished", "dead"]),
            _ => self
                .dice
                .of(&["leased", "leased", "leased", "pending", "delayed", "finished", "dead"]),
        }
    }

    fn call(&mut self, call: Call) -> Result<(), String> {
        let before = self.dirty.then(|| self.state.render(&self.server.keys));
        self.dirty = false;
        let outcome = self.server.run(&call, before.as_ref());
        self.done.push(Done::Call(call.clone()));
        self.calls += 1;
        self.compare(&call, outcome)?;
        self.remember(call);
        Ok(())
    }

    /// The script read the clock once, between two readings of ours: nearly always within one ms.
    fn compare(&mut self, call: &Call, real: Outcome) -> Result<(), String> {
        let mut why = String::new();
        for now in real.between.0..=real.between.1 {
            let mut state = self.state.clone();
            let reply = state.step(call, now);
            let model = Outcome {
                between: (now, now),
                reply: reply.value(),
                shard: state.render(&self.server.keys),
                messages: reply.messages(&self.server.keys),
            };
            let agreed = reply.matches(call.script(), &real.reply)
                && model.shard == real.shard
                && model.messages == real.messages;
            if agreed {
                self.state = state;
                reply
                    .words()
                    .for_each(|word| *self.tally.entry((call.script(), word)).or_default() += 1);
                return if self.damaged { Ok(()) } else { self.judge(&reply) };
            }
            why = differences(&model, &real);
        }
        Err(why)
    }

    fn judge(&mut self, reply: &Reply) -> Result<(), String> {
        self.ledger.follow(reply, &self.state)?;
        invariants::broken(&self.state)
    }

    fn remember(&mut self, call: Call) {
        let leases: Vec<_> =
            self.state.leases().into_iter().map(|(_, fence, it)| (fence, it)).collect();
        if let Some(lease) = self.dice.any(&leases) {
            self.past.leases.push(lease);
        }
        let there: Vec<_> = self.state.homes.keys().copied().collect();
        if let Some(handle) = self.dice.any(&there) {
            self.past.handles.push(handle);
        }
        self.past.calls.push(call);
    }
}

fn differences(model: &Outcome, real: &Outcome) -> String {
    let message =
        |(channel, text): &(Vec<u8>, Vec<u8>)| format!("{} {}", channel.escape_ascii(), show(text));
    let told = |outcome: &Outcome| outcome.messages.iter().map(message).collect::<Vec<_>>();
    format!(
        "at {:?}\nmodel answers {}\nredis answers {}\nmodel tells {:?}\nredis tells {:?}\n{}",
        real.between,
        model.reply.show(),
        real.reply.show(),
        told(model),
        told(real),
        model.shard.differences(&real.shard),
    )
}

/// Walks one plan, and counts the answers that were given.
pub(crate) fn walk(
    server: &mut Server,
    tally: &mut Tally,
    plan: Plan,
) -> Result<usize, Box<Parted>> {
    Walk::new(server, tally, plan).go()
}
