//! Redis in a play: the model's state under a clock of its own, and what its clients are told.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use holdfast_core::{
    keys::ShardKeys,
    model::QueueName,
    script::{self, Listing},
};
use holdfast_model::{
    call::Call,
    invariants::{self, Ledger},
    names,
    reply::{Part, Reply},
    state::{Body, Fence, Handle, Id, Paper, State},
    value::Value,
};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Moved,
    fate::{Fate, Faults, Service},
    heard::{self, Sessions},
    mind::{At, Checked, Mind},
    resp::Words,
    told::{Told, changes_nothing_of_others, told},
};

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
    counts: BTreeMap<(Actor, String), u64>,
    services: u64,
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
            services: 0,
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

    /// What becomes of the next command of this name.
    pub(crate) fn fate(&mut self, actor: Actor, name: &str) -> Fate {
        let count = self.counts.entry((actor, name.to_owned())).or_default();
        *count += 1;
        if self.faults_end.is_some() {
            return Fate::default();
        }
        self.faults.of_command(&actor.name(), name, *count)
    }

    /// What the gateway does with the next call, and its number.
    pub(crate) fn service(&mut self) -> (u64, Service) {
        self.services += 1;
        let (count, now) = (self.services, self.now());
        let mut service = self.faults.of_call(count, now);
        if self.faults_end.is_some() {
            service = Service { after: 20, with: crate::fate::With::Status(200) };
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
            if call.is_none() && !["register", "may"].contains(&script) {
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

    fn script(words: &Words) -> Option<&'static str> {
        let word = std::str::from_utf8(words.get(1)?).ok()?;
        scripts().iter().find(|it| it.sha1 == word || it.text == word).map(|it| it.name)
    }

    /// Runs a command, other than one that waits.
    pub(crate) fn run(&mut self, asked: &Asked) -> (Value, Told) {
        let word = |at: usize| asked.words.get(at).map(Vec::as_slice).unwrap_or_default();
        let ok = || Value::Status("OK".to_owned());
        let value = match word(0) {
            b"EVALSHA" | b"EVAL" => return self.run_script(asked),
            b"PING" => Value::Status("PONG".to_owned()),
            b"CLIENT" if word(1) == b"ID" => Value::Number(1),
            b"INFO" => Value::Bytes(INFO.to_vec()),
            b"SCRIPT" => {
                let sha = scripts().iter().find(|it| it.text.as_bytes() == word(2));
                let sha = sha.map(|it| it.sha1.as_str());
                self.loaded.extend(sha);
                let unknown = || Value::Error("ERR none of ours".to_owned());
                sha.map_or_else(unknown, |sha| Value::Bytes(sha.into()))
            }
            b"HMGET" => {
                Value::Array(asked.words[2..].iter().map(|key| self.request(key)).collect())
            }
            b"HGETALL" => {
                let pairs = self.registered.iter().flat_map(|(name, value)| [name, value]);
                Value::Array(pairs.map(|bytes| Value::Bytes(bytes.clone())).collect())
            }
            b"CLIENT" | b"SELECT" | b"QUIT" => ok(),
            other => {
                let what = other.escape_ascii().to_string();
                self.check("somebody", Err(format!("sends a strange command: {what}")));
                Value::Error("ERR unknown command".to_owned())
            }
        };
        (value, Told::Nothing)
    }

    fn request(&self, key: &[u8]) -> Value {
        let id = Id(key.first().copied().unwrap_or_default());
        match self.state.requests.get(&id) {
            Some(body) => Value::Bytes(names::request(id, *body)),
            None => Value::Nil,
        }
    }

    fn run_script(&mut self, asked: &Asked) -> (Value, Told) {
        let not_run = |asked: &Asked| match &asked.call {
            Some(Call::Claim(claim)) => Told::NoClaim(claim.fence.call),
            _ => Told::Nothing,
        };
        let sha = String::from_utf8_lossy(&asked.words[1]);
        if asked.words[0] == b"EVALSHA" && !self.loaded.contains(&*sha) {
            return (Value::Error("NOSCRIPT No matching script.".to_owned()), not_run(asked));
        }
        let Some(call) = &asked.call else {
            let is_question = asked.name == "may";
            let value = if is_question { yes(&asked.words) } else { self.register(&asked.words) };
            return (value, Told::Nothing);
        };
        if let Call::Settle(rows) = call
            && let Some(poison) = self.poison
            && rows.iter().any(|row| row.handle.id == poison)
            && rows.iter().all(|row| row.word != holdfast_model::state::Word::Bury)
        {
            let error = Value::Error("ERR this group can't be settled".to_owned());
            return (error, Told::NoSettle(rows.clone()));
        }
        let reply = self.step(call, self.now());
        let told = told(call, &reply);
        let mut value = reply.value();
        self.sessions.rename(&mut value);
        (value, told)
    }

    fn register(&mut self, words: &Words) -> Value {
        if let [kind, name, value, ..] = args(words)
            && kind == b"queue"
        {
            self.registered.insert(name.clone(), value.clone());
        }
        let ends = args(words).first().is_some_and(|kind| kind == b"ended");
        let word = if ends { b"ended".to_vec() } else { b"registered".to_vec() };
        let now = self.clock(self.now()).to_string().into_bytes();
        Value::Array(vec![Value::Array(vec![Value::Bytes(word), Value::Bytes(now)])])
    }

    /// Runs a call of the model at a moment, and checks what it left behind.
    pub(crate) fn step(&mut self, call: &Call, at: At) -> Reply {
        let before = matches!(call, Call::Settle(_)).then(|| self.state.clone());
        let reply = self.state.step(call, self.clock(at));
        if let (Some(before), Call::Settle(rows)) = (before, call) {
            let checked = changes_nothing_of_others(&before, &self.state, rows, &reply);
            self.check("a settle", checked);
        }
        let checked = self.ledger.follow(&reply, &self.state);
        self.check("Redis:", checked.and_then(|()| invariants::broken(&self.state)));
        for (channel, mut message) in reply.messages(&self.keys) {
            self.sessions.rename_bytes(&mut message);
            if channel == self.keys.cancel.as_bytes() {
                let words = [b"smessage".to_vec(), channel, message].map(Value::Bytes);
                self.subscribers.retain(|it| it.send(Value::Push(words.to_vec())).is_ok());
            }
        }
        if self.state.bell > 0 {
            self.bell.notify_waiters();
        }
        if self.remembers && !matches!(call, Call::Depth | Call::Ring) {
            self.past.push_back((at, self.state.clone()));
            if self.past.len() > 200 {
                self.past.pop_front();
            }
        }
        reply
    }

    /// Redis goes down, forgets what it did in the last `forgets` ms, and is back after `down`.
    pub(crate) fn crash(&mut self, forgets: u64, down: u64) {
        let now = self.now();
        self.tell(|| format!("redis goes down for {down} ms, and forgets {forgets} ms"));
        std::mem::take(&mut self.up).cancel();
        self.down_until = now + down;
        if forgets == 0 {
            return;
        }
        let since = now.saturating_sub(forgets);
        while self.past.back().is_some_and(|(at, _)| *at > since) {
            self.past.pop_back();
        }
        if let Some((_, state)) = self.past.back() {
            self.state = state.clone();
            let mut again = Reply::default();
            for (id, paper) in &self.state.tickets {
                let (Paper::Whole(ticket), false) = (paper, self.state.records.contains_key(id))
                else {
                    continue;
                };
                again.say(vec![Part::Word("accepted"), Part::Ticket(Box::new(ticket.clone()))]);
            }
            self.ledger = Ledger::default();
            let checked = self.ledger.follow(&again, &self.state);
            self.check("Redis:", checked);
        }
    }

    /// A connection has broken.
    pub(crate) fn is_cut_off(&mut self, actor: Actor) {
        let now = self.now();
        if let Actor::Worker(worker) = actor {
            self.minds[worker].is_cut_off(now);
        }
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

/// A user of this Redis may do all that it asks about, in rows of four words.
fn yes(words: &Words) -> Value {
    let answer = |_: &[Vec<u8>]| Value::Array(vec![Value::Bytes(b"yes".to_vec())]);
    Value::Array(args(words).chunks(4).map(answer).collect())
}

/// The shipped scripts.
fn scripts() -> &'static [Listing] {
    static SCRIPTS: OnceLock<Vec<Listing>> = OnceLock::new();
    SCRIPTS.get_or_init(script::all)
}

/// What a server says of itself that is as it should be.
const INFO: &[u8] = b"# Server\r\nredis_version:7.2.4\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n\
    aof_enabled:1\r\nused_memory:1000\r\nmaxmemory:0\r\naof_last_write_status:ok\r\nsecond_repl_offset:-1\r\n";

/// The body by which the gateway knows an id.
pub(crate) fn body_of(id: Id) -> Body {
    // An even one comes without an envelope.
    Body(2 * id.0)
}

pub(crate) fn id_of(body: &[u8]) -> Option<Id> {
    Some(Id(body.first()? / 2))
}

/// ARGV of a script.
fn args(words: &Words) -> &[Vec<u8>] {
    let keys = words.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    words.get(3 + keys.unwrap_or(0)..).unwrap_or_default()
}
