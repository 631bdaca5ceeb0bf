//! The scripts on their server and the model in step: after each call both must have answered, told and left behind the
//! same.

mod mistyped;

use std::collections::{BTreeMap, VecDeque};

use holdfast_model::{
    call::Call,
    invariants::{self, Ledger},
    reply::Reply,
    shard::Shard,
    state::State,
    value::{Value, show},
};

use self::mistyped::Mistyped;
use crate::{
    fault::Fault,
    server::{Outcome, Server},
    world::Event,
};

/// How a walk ends on a server that hangs.
pub(crate) const NO_ANSWER: &str = "no answer";

/// What may become of a server: killed and started again, the same with the end of its file lost, or merely laid back.
pub(crate) const CRASHES: [&str; 3] = ["killed", "killed, suffix lost", "suffix forgotten"];

/// How many steps a server may forget at once.
const MEMORY: usize = 6;

/// How often each script gave each of its answers, and how often each fault met it.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) answers: BTreeMap<(&'static str, &'static str), usize>,
    pub(crate) faults: BTreeMap<(&'static str, &'static str), usize>,
    /// Calls that both have made, and that were compared.
    pub(crate) steps: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        let sum = |to: &mut BTreeMap<_, usize>,
                   from: BTreeMap<(&'static str, &'static str), usize>| {
            from.into_iter().for_each(|(what, count)| *to.entry(what).or_default() += count);
        };
        sum(&mut self.answers, other.answers);
        sum(&mut self.faults, other.faults);
        self.steps += other.steps;
    }
}

/// What both knew at some step.
#[derive(Clone)]
struct Memory {
    state: State,
    ledger: Ledger,
    /// How much the server had on disk then.
    mark: u64,
    /// How much time has passed since.
    passed: i64,
}

pub(crate) struct Stage<'a> {
    pub(crate) server: &'a mut Server,
    tally: &'a mut Tally,
    pub(crate) state: State,
    ledger: Ledger,
    /// The latest last.
    memory: VecDeque<Memory>,
    /// The model went on without the server, which gets its state with the next call.
    dirty: bool,
    damaged: bool,
    /// A call that is kept on its way.
    late: Option<Call>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(server: &'a mut Server, tally: &'a mut Tally) -> Self {
        server.calm();
        Self {
            server,
            tally,
            state: State::default(),
            ledger: Ledger::default(),
            memory: VecDeque::new(),
            dirty: true,
            damaged: false,
            late: None,
        }
    }

    /// How many steps can be forgotten.
    pub(crate) fn memory(&self) -> usize {
        self.memory.len().saturating_sub(1)
    }

    /// Makes a call on both.
    pub(crate) fn call(&mut self, call: &Call, fault: Fault) -> Result<(), String> {
        if fault == Fault::Late {
            self.release()?;
        }
        let before = self.before();
        let outcome = self.server.run(call, before.as_ref(), fault);
        self.dirty = matches!(fault, Fault::Mistyped(_));
        self.follow(call, fault, outcome.map_err(|err| format!("{NO_ANSWER}: {err}"))?)?;
        if fault == Fault::Late {
            self.late = Some(call.clone());
        }
        Ok(())
    }

    /// Lets the call run that was kept on its way, if there is one.
    pub(crate) fn release(&mut self) -> Result<(), String> {
        let Some(call) = self.late.take() else { return Ok(()) };
        let before = self.before();
        let outcome = self.server.release(before.as_ref());
        self.dirty = false;
        self.follow(&call, Fault::None, outcome.map_err(|err| format!("{NO_ANSWER}: {err}"))?)
    }

    /// What the server is to hold first, if that is not what it holds.
    fn before(&self) -> Option<Shard> {
        self.dirty.then(|| self.state.render(&self.server.keys))
    }

    /// Lets something happen to the shard. Says by how much time has passed.
    pub(crate) fn happen(&mut self, event: &Event) -> Result<i64, String> {
        // What is on its way came from before.
        self.release()?;
        if let Event::Forget { steps } = event {
            return self.forget(*steps);
        }
        let by = event.happen(&mut self.state, self.server.now());
        self.ledger.pass(by);
        self.memory.iter_mut().for_each(|memory| memory.passed += by);
        self.damaged |= event.damages();
        self.dirty = true;
        Ok(by)
    }

    /// The server crashes, and has lost the last steps when it is back.
    fn forget(&mut self, steps: usize) -> Result<i64, String> {
        let Some(left) = self.memory.len().checked_sub(1 + steps) else { return Ok(0) };
        self.memory.truncate(left + 1);
        let Some(Memory { state, ledger, mark, passed }) = self.memory.back().cloned() else {
            return Ok(0);
        };
        if self.server.keeps {
            let real = self.server.crash(mark).map_err(|err| format!("no server: {err}"))?;
            let model = state.render(&self.server.keys);
            if model != real {
                return Err(format!("after a crash\n{}", model.differences(&real)));
            }
        }
        (self.state, self.ledger) = (state, ledger);
        self.state.pass(passed);
        self.ledger.pass(passed);
        self.dirty = true;
        let [killed, lost, forgotten] = CRASHES;
        let word = match steps {
            _ if !self.server.keeps => forgotten,
            0 => killed,
            _ => lost,
        };
        *self.tally.faults.entry(("redis", word)).or_default() += 1;
        Ok(0)
    }

    /// The script read the clock once, between two readings of ours: nearly always within one ms.
    fn follow(&mut self, call: &Call, fault: Fault, real: Outcome) -> Result<(), String> {
        self.tally.steps += 1;
        *self.tally.faults.entry((call.script(), fault.word())).or_default() += 1;
        let mistyped = match fault {
            Fault::Mistyped(number) => {
                Some(Mistyped::new(self.server.key(call, number), &self.server.keys))
            }
            _ => None,
        };
        let mistyped = mistyped.as_ref();
        let compared =
            |shard: &Shard| mistyped.map_or(shard.clone(), |it| it.compared(shard.clone()));
        let before = self.state.render(&self.server.keys);
        if let Some(as_it_must) = refusal(call, fault, real.reply.as_ref()) {
            let (held, shard) = (compared(&before), compared(&real.shard));
            if as_it_must && held == shard && real.messages.is_empty() {
                return Ok(());
            }
            let answer = told(real.reply.as_ref());
            let differences = held.differences(&shard);
            return Err(format!("{}: redis answers {answer}\n{differences}", fault.word()));
        }
        let call = mistyped.map_or(call.clone(), |it| it.call(call));
        let mut why = String::new();
        for now in real.between.0..=real.between.1 {
            let mut state = mistyped.map_or(self.state.clone(), |it| it.found(&self.state));
            let reply = state.step(&call, now);
            let model = state.render(&self.server.keys);
            let agreed = real.reply.as_ref().is_none_or(|it| reply.matches(call.script(), it))
                && mistyped.is_none_or(|it| it.is_untouched(&before, &model, &real.shard))
                && compared(&model) == compared(&real.shard)
                && reply.messages(&self.server.keys) == real.messages;
            if agreed {
                self.state = match mistyped {
                    Some(it) => it.left(&self.state, state),
                    None => state,
                };
                return self.judge(&call, &reply, real.reply.is_some());
            }
            why = self.differences(&reply, &model, &real);
        }
        Err(why)
    }

    fn judge(&mut self, call: &Call, reply: &Reply, heard: bool) -> Result<(), String> {
        if heard {
            for word in reply.words() {
                *self.tally.answers.entry((call.script(), word)).or_default() += 1;
            }
        }
        if !self.damaged {
            self.ledger.follow(reply, &self.state)?;
            invariants::broken(&self.state)?;
        }
        if !self.dirty {
            self.remember();
        }
        Ok(())
    }

    fn remember(&mut self) {
        let (state, ledger) = (self.state.clone(), self.ledger.clone());
        self.memory.push_back(Memory { state, ledger, mark: self.server.mark(), passed: 0 });
        if self.memory.len() > MEMORY {
            self.memory.pop_front();
        }
    }

    fn differences(&self, reply: &Reply, model: &Shard, real: &Outcome) -> String {
        let message = |(channel, text): &(Vec<u8>, Vec<u8>)| {
            format!("{} {}", channel.escape_ascii(), show(text))
        };
        let tells = |them: &[_]| them.iter().map(message).collect::<Vec<_>>();
        format!(
            "at {:?}\nmodel answers {}\nredis answers {}\nmodel tells {:?}\nredis tells {:?}\n{}",
            real.between,
            reply.value().show(),
            told(real.reply.as_ref()),
            tells(&reply.messages(&self.server.keys)),
            tells(&real.messages),
            model.differences(&real.shard),
        )
    }
}

/// Whether a call is to change nothing because of its fault: then, whether it was refused as it must be.
fn refusal(call: &Call, fault: Fault, reply: Option<&Value>) -> Option<bool> {
    let error = match reply {
        Some(Value::Error(text)) => Some(text.as_str()),
        _ => None,
    };
    let says = |word: &str| error.is_some_and(|text| text.contains(word));
    match fault {
        Fault::LostRequest | Fault::Late | Fault::Cut => Some(reply.is_none()),
        Fault::Forgotten => Some(says("NOSCRIPT")),
        // Whatever makes more of what is there is refused; all else runs.
        Fault::Full => matches!(call.script(), "submit" | "redrive").then(|| says("OOM")),
        Fault::Mistyped(_) => says("WRONGTYPE").then_some(true),
        // By the script itself before its first write, or by Redis, in words of its own, at the only one.
        Fault::Denied(_) => {
            let unnamed = says("The user executing the script");
            let named = fault.denied().is_some_and(|it| says(&format!(" '{it}' command")));
            let is_denied = unnamed || says("NOPERM") || says("ACL failure in script");
            is_denied.then_some(named || unnamed)
        }
        Fault::None | Fault::LostReply => None,
    }
}

fn told(reply: Option<&Value>) -> String {
    reply.map_or_else(|| "nothing".to_owned(), Value::show)
}
