//! Redis in a play: the model's state under a clock of its own, and what its clients are told.

mod server;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use holdfast_core::{keys::ShardKeys, model::QueueName, script::Listing};
use holdfast_model::{
    call::Call,
    invariants::Ledger,
    state::{Body, Fence, Handle, Id, State},
    value::Value,
};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Moved,
    fate::{Fate, Fault, Faults, Service, With},
    heard::{self, Sessions},
    mind::{At, Checked, Mind},
    resp::Words,
    told::Told,
};
use server::{args, scripts};

/// What the clock of Redis shows when a play begins, in ms.
const EPOCH: u64 = 1_900_000_000_000;
/// How many lines of what happened are told.
const TOLD: usize = 600;

/// A play that takes longer will never end, in ms.
const LONGEST: At = 2_400_000;

/// Who talks to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    Worker(usize),
    Reclaimer,
}

impl Actor {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Worker(at) => format!("w{at}"),
            Self::Reclaimer => "r".to_owned(),
        }
    }
}

/// A command that came.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) words: Words,
    pub(crate) call: Option<Call>,
    pub(crate) at: At,
}

pub(crate) struct World {
    start: Instant,
    pub(crate) moved: Moved,
    faults: Faults,
    /// From then on nothing goes wrong any more.
    faults_end: Option<At>,
    pub(crate) state: State,
    ledger: Ledger,
    sessions: Sessions,
    pub(crate) keys: ShardKeys,
    /// By how much the clock of Redis was set, in ms.
    pub(crate) offset: i64,
    pub(crate) minds: Vec<Mind>,
    counts: BTreeMap<String, u64>,
    /// What went wrong on the way and at the gateway.
    pub(crate) happened: Vec<Fault>,
    loaded: BTreeSet<&'static str>,
    registered: BTreeMap<Vec<u8>, Vec<u8>>,
    subscribers: Vec<mpsc::UnboundedSender<Value>>,
    pub(crate) bell: Arc<Notify>,
    past: VecDeque<(At, State)>,
    /// Whether `past` is needed.
    pub(crate) remembers: bool,
    /// Cancelled when Redis goes down, with all connections.
    pub(crate) up: CancellationToken,
    pub(crate) down_until: At,
    pub(crate) silent_until: BTreeMap<Actor, At>,
    /// Groups with this one fail, and it fails alone.
    pub(crate) poison: Option<Id>,
    told: VecDeque<String>,
    wrong: Option<String>,
}

/// The world of one play, which all its tasks share.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn new(faults: Faults, slots: &[usize], moved: Moved) -> Self {
        let queue = QueueName::try_from("q").expect("a name");
        // A new server knows no script.
        let known: &[Listing] = if faults.is_new() { &[] } else { scripts() };
        let loaded = known.iter().map(|script| script.sha1.as_str()).collect();
        Self(Arc::new(Mutex::new(World {
            start: Instant::now(),
            moved,
            faults,
            faults_end: None,
            state: State::default(),
            ledger: Ledger::default(),
            sessions: Sessions::default(),
            keys: ShardKeys::new(&queue, 0),
            offset: 0,
            minds: slots.iter().map(|slots| Mind::new(*slots)).collect(),
            counts: BTreeMap::new(),
            happened: Vec::new(),
            loaded,
            registered: BTreeMap::new(),
            subscribers: Vec::new(),
            bell: Arc::new(Notify::new()),
            past: VecDeque::new(),
            remembers: false,
            up: CancellationToken::new(),
            down_until: 0,
            silent_until: BTreeMap::new(),
            poison: None,
            told: VecDeque::new(),
            wrong: None,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// Ms since the play began.
    pub(crate) fn now(&self) -> At {
        self.start.elapsed().as_millis() as At
    }

    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// What the clock of Redis shows at a moment.
    pub(crate) fn clock(&self, at: At) -> u64 {
        (EPOCH + at).saturating_add_signed(self.offset)
    }

    /// Notes what happened, for whoever has to find out why.
    pub(crate) fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.told.len() == TOLD {
            self.told.pop_front();
        }
        let line = format!("{:9.3} {}", self.now() as f64 / 1e3, what());
        self.told.push_back(line);
    }

    /// Notes that something is wrong. The first counts.
    pub(crate) fn check(&mut self, who: &str, checked: Checked) {
        if let Err(what) = checked
            && self.wrong.is_none()
        {
            self.tell(|| format!("WRONG: {who} {what}"));
            self.wrong = Some(format!("{who} {what}"));
        }
    }

    pub(crate) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    pub(crate) fn story(&self) -> String {
        self.told.iter().map(|line| format!("{line}\n")).collect()
    }

    pub(crate) fn mend(&mut self) {
        self.faults_end = Some(self.now());
        self.silent_until.clear();
        self.down_until = 0;
        self.tell(|| "from now on nothing goes wrong".to_owned());
    }

    pub(crate) fn is_mended(&self) -> bool {
        self.faults_end.is_some()
    }

    /// What must hold whenever nobody has anything left to do.
    pub(crate) fn is_at_rest(&mut self) {
        let now = self.now();
        if now > LONGEST {
            self.check("the play:", Err("does not end".to_owned()));
        }
        let checked: Vec<Checked> = self.minds.iter().map(|mind| mind.is_at_rest(now)).collect();
        for (at, checked) in checked.into_iter().enumerate() {
            self.check(&Actor::Worker(at).name(), checked);
        }
    }

    fn next(&mut self, of: String) -> Fault {
        let count = self.counts.entry(of.clone()).or_default();
        *count += 1;
        Fault { of, count: *count }
    }

    /// What becomes of the next command of this name.
    pub(crate) fn fate(&mut self, actor: Actor, name: &str) -> Fate {
        let fault = self.next(format!("{} {name}", actor.name()));
        if self.faults_end.is_some() {
            return Fate::default();
        }
        let fate = self.faults.of_command(name, &fault);
        if fate != Fate::default() {
            self.happened.push(fault);
        }
        fate
    }

    /// What the gateway does with the next call, and its number.
    pub(crate) fn service(&mut self) -> (u64, Service) {
        let fault = self.next("gateway".to_owned());
        let count = fault.count;
        if self.faults_end.is_some() {
            return (count, Service { after: 20, with: With::Status(200) });
        }
        let service = self.faults.of_call(&fault, self.now());
        if service.with != With::Status(200) {
            self.happened.push(fault);
        }
        (count, service)
    }

    /// A command has come, at this moment.
    pub(crate) fn asked(&mut self, actor: Actor, words: Words) -> Asked {
        let at = self.now();
        let (mut name, mut call) = (String::from_utf8_lossy(&words[0]).into_owned(), None);
        if let ("EVALSHA" | "EVAL", Some(script)) = (name.as_str(), Self::script(&words)) {
            name = script.to_owned();
            call = heard::call(script, args(&words), &mut self.sessions);
            if call.is_none() && !["register", "may", "rows"].contains(&script) {
                self.check(&actor.name(), Err(format!("makes a strange call of {script}")));
            }
        }
        if let (Actor::Worker(worker), Some(call)) = (actor, &call) {
            let mind = &mut self.minds[worker];
            let checked = match call {
                Call::Claim(claim) => mind.asks_claim(at, claim),
                Call::Renew { leases, .. } => mind.asks_renew(at, leases),
                Call::Settle(rows) => mind.asks_settle(rows),
                _ => Ok(()),
            };
            self.check(&actor.name(), checked);
        }
        Asked { name, words, call, at }
    }

    /// A connection has broken.
    pub(crate) fn is_cut_off(&mut self, actor: Actor) {
        let now = self.now();
        if let Actor::Worker(worker) = actor {
            self.minds[worker].is_cut_off(now);
        }
    }

    /// Whether its process has ended. What its client would still send, a process that is gone does not.
    pub(crate) fn is_gone(&self, actor: Actor) -> bool {
        matches!(actor, Actor::Worker(worker) if self.minds[worker].has_gone())
    }

    pub(crate) fn subscribe(&mut self, to: mpsc::UnboundedSender<Value>) {
        self.subscribers.push(to);
    }

    /// What a worker hears, the moment that it does.
    pub(crate) fn hears(&mut self, actor: Actor, sent: At, told: Told) {
        let (now, Actor::Worker(worker)) = (self.now(), actor) else { return };
        let mind = &mut self.minds[worker];
        match told {
            Told::Nothing => {}
            Told::Claim(claim, leases) => mind.hears_claim(sent, &claim, &leases),
            Told::NoClaim(call) => mind.claim_has_not_run(call),
            Told::Renew(length, answers) => mind.hears_renew(now, sent, length, &answers),
            Told::Settle(rows) => mind.hears_settle(now, &rows),
            Told::NoSettle(rows) => mind.group_is_refused(&rows),
        }
    }

    /// What a worker hears or not: whatever it does with it is right, and so is whatever it does without.
    pub(crate) fn may_hear(&mut self, actor: Actor, sent: At, told: Told) {
        let Actor::Worker(worker) = actor else { return };
        let leases: Vec<(Fence, Handle)> = match &told {
            Told::Claim(claim, leases) => leases.iter().map(|(it, _)| (claim.fence, *it)).collect(),
            Told::Renew(_, answers) => answers.iter().map(|(lease, _)| *lease).collect(),
            Told::Settle(rows) => rows.iter().map(|row| (row.fence, row.handle)).collect(),
            _ => Vec::new(),
        };
        match told {
            Told::Settle(_) => {}
            Told::Renew(length, mut answers) => {
                answers.retain(|(_, till)| till.is_some());
                self.hears(actor, sent, Told::Renew(length, answers));
            }
            told => self.hears(actor, sent, told),
        }
        self.minds[worker].may_let_go(&leases);
    }

    /// How many live, and how many of the others ended in which way.
    pub(crate) fn live(&self) -> u64 {
        self.state.live()
    }

    /// A worker that has ended holds nothing.
    pub(crate) fn holds_nothing(&self, worker: usize) -> Checked {
        self.minds[worker].has_ended()?;
        // What Redis forgot to have been settled is nobody's fault: it lapses.
        if self.remembers {
            return Ok(());
        }
        let session = self.minds[worker].session();
        let of_it = |lease: &(u64, Fence, Handle)| Some(lease.1.session) == session;
        match self.state.leases().into_iter().find(of_it) {
            Some((_, fence, handle)) => Err(format!("has ended and holds {:?}", (fence, handle))),
            None => Ok(()),
        }
    }
}

/// The body by which the gateway knows an id.
pub(crate) fn body_of(id: Id) -> Body {
    // An even one comes without an envelope.
    Body(2 * id.0)
}

pub(crate) fn id_of(body: &[u8]) -> Option<Id> {
    Some(Id(body.first()? / 2))
}
