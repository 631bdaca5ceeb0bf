//! Walks: random calls, and what happens between them and to them, on the scripts and on the model.

use std::fmt;

use holdfast_model::{call::Call, state::Ms};

use crate::{
    dice::Dice,
    draw::{Draw, Past},
    fault::Fault,
    server::Server,
    stage::{Stage, Tally},
    world::{Around, Event, Slant},
};

/// How a walk goes.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// How many calls are drawn; some come more than once.
    pub(crate) calls: usize,
    /// A script to draw more often than others.
    pub(crate) favourite: Option<&'static str>,
    /// What it is inclined to; none: that is drawn too.
    pub(crate) slant: Option<Slant>,
}

/// How often a walk is inclined to something.
const SLANTS: [(usize, Slant); 7] = [
    (12, Slant::Even),
    (6, Slant::Damaged),
    (2, Slant::Spoiled),
    (1, Slant::Crowded),
    (3, Slant::Worn),
    (2, Slant::Tight),
    (2, Slant::Mistyped),
];

/// One step of a walk, so that it can be walked again.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Call(Call, Fault),
    Event(Event),
    /// The call that was kept on its way runs.
    Release,
}

/// A step and when it was drawn, by the server's clock.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: Ms,
    pub(crate) what: What,
}

/// A walk on which model and server parted.
pub(crate) struct Parted {
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
    pub(crate) why: String,
}

impl Parted {
    /// How many calls were made.
    pub(crate) fn calls(&self) -> usize {
        self.steps.iter().filter(|step| !matches!(step.what, What::Event(_))).count()
    }
}

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HOLDFAST_SEED={} parts at call {}:", self.seed, self.calls())?;
        for (number, step) in self.steps.iter().enumerate() {
            match &step.what {
                What::Call(call, Fault::None) => writeln!(f, "{number:4} {call:?}")?,
                What::Call(call, fault) => writeln!(f, "{number:4} [{}] {call:?}", fault.word())?,
                What::Event(event) => writeln!(f, "{number:4} -- {event:?}")?,
                What::Release => writeln!(f, "{number:4} the late call runs")?,
            }
        }
        f.write_str(&self.why)
    }
}

/// Makes one step on both. Says by how much time has passed.
pub(crate) fn make(stage: &mut Stage<'_>, what: &What) -> Result<i64, String> {
    match what {
        What::Call(call, fault) => stage.call(call, *fault).map(|()| 0),
        What::Event(event) => stage.happen(event),
        What::Release => stage.release().map(|()| 0),
    }
}

struct Walk<'a> {
    stage: Stage<'a>,
    plan: Plan,
    dice: Dice,
    past: Past,
    steps: Vec<Step>,
    slant: Slant,
}

impl Walk<'_> {
    /// A queue is declared before it is used; nearly always.
    fn begin(&mut self) -> Result<(), String> {
        if self.dice.one_in(12) {
            return Ok(());
        }
        let policy = self.draw().first_policy();
        self.call(policy, Fault::None)
    }

    fn step(&mut self) -> Result<(), String> {
        // What must happen at a certain moment is decided before time is made to reach it.
        let call = self.draw().call();
        if self.dice.one_in(3) {
            self.happen()?;
        }
        let fault = Fault::draw(&mut self.dice, self.slant == Slant::Mistyped);
        self.call(call.clone(), fault)?;
        let again = if fault.is_unanswered() { !self.dice.one_in(5) } else { self.dice.one_in(6) };
        if again {
            self.call(call, Fault::None)?;
        }
        if self.dice.one_in(3) {
            self.make(What::Release)?;
        }
        if self.dice.one_in(8)
            && let Some(late) = self.dice.any(&self.past.calls)
        {
            self.call(late, Fault::None)?;
        }
        Ok(())
    }

    fn draw(&mut self) -> Draw<'_> {
        Draw {
            dice: &mut self.dice,
            state: &self.stage.state,
            past: &mut self.past,
            now: self.stage.server.now(),
            slant: self.slant,
            favourite: self.plan.favourite,
        }
    }

    fn happen(&mut self) -> Result<(), String> {
        let around = Around {
            now: self.stage.server.now(),
            slant: self.slant,
            target: self.target(),
            memory: self.stage.memory(),
            keeps: self.stage.server.keeps,
        };
        let Some(event) = Event::draw(&mut self.dice, &self.stage.state, around) else {
            return Ok(());
        };
        if let Event::Damage { id, broken: None } = event {
            self.past.lost = Some(id);
        }
        self.make(What::Event(event))
    }

    /// The home in which damage is done: where it shows in the favourite's calls, or in any other.
    fn target(&mut self) -> &'static str {
        match self.plan.favourite {
            Some("claim") => self.dice.of(&["pending", "pending", "leased"]),
            Some("reclaim" | "settle" | "renew") => self.dice.of(&["leased", "leased", "dead"]),
            Some("promote") => "delayed",
            Some("redrive") => "dead",
            Some("sweep") => self.dice.of(&["finished", "dead"]),
            _ => self
                .dice
                .of(&["leased", "leased", "leased", "pending", "delayed", "finished", "dead"]),
        }
    }

    fn call(&mut self, call: Call, fault: Fault) -> Result<(), String> {
        self.make(What::Call(call.clone(), fault))?;
        self.remember(call);
        Ok(())
    }

    fn make(&mut self, what: What) -> Result<(), String> {
        let at = self.stage.server.now();
        self.steps.push(Step { at, what: what.clone() });
        let by = make(&mut self.stage, &what)?;
        self.past.calls.iter_mut().for_each(|call| call.pass(by));
        Ok(())
    }

    fn remember(&mut self, call: Call) {
        let state = &self.stage.state;
        let leases: Vec<_> = state.leases().into_iter().map(|(_, fence, it)| (fence, it)).collect();
        if let Some(lease) = self.dice.any(&leases) {
            self.past.leases.push(lease);
        }
        let there: Vec<_> = state.homes.keys().copied().collect();
        if let Some(handle) = self.dice.any(&there) {
            self.past.handles.push(handle);
        }
        self.past.calls.push(call);
    }
}

/// Walks one plan, and counts the answers that were given.
pub(crate) fn walk(server: &mut Server, tally: &mut Tally, plan: Plan) -> Result<(), Box<Parted>> {
    let mut dice = Dice::new(plan.seed);
    let slant = plan.slant.unwrap_or_else(|| dice.weighed(&SLANTS));
    let stage = Stage::new(server, tally);
    let mut walk = Walk { stage, plan, dice, past: Past::default(), steps: Vec::new(), slant };
    let went = walk
        .begin()
        .and_then(|()| (0..plan.calls).try_for_each(|_| walk.step()))
        .and_then(|()| walk.make(What::Release));
    went.map_err(|why| Box::new(Parted { seed: plan.seed, steps: walk.steps, why }))
}
