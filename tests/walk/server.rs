//! The real scripts on a real server, one call at a time, with all that they leave behind.

mod content;

use std::{
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use holdfast_core::{keys::ShardKeys, model::QueueName};
use holdfast_model::{call::Call, shard::Shard, state::Ms, value::Value};
use holdfast_testkit::{AppendFsync, Proxy, RedisServer, When, proxy};
use tokio::runtime::Runtime;

use self::content::{DUMP, lay, read, value};
use crate::{
    fault::Fault,
    redis::{Command, Expect as _, Link, command},
    scripts::{self, SCRIPTS, Texts},
};

/// How long the proxy may take to do what it was told.
const LIMIT: Duration = Duration::from_secs(5);
/// What is put under a key in the place of what belongs there.
pub(crate) const MISTYPED: &[u8] = b"not what belongs here";

/// What one call led to.
pub(crate) struct Outcome {
    /// The server's clock just before and just after.
    pub(crate) between: (Ms, Ms),
    /// None: its caller heard nothing.
    pub(crate) reply: Option<Value>,
    pub(crate) shard: Shard,
    pub(crate) messages: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A script that can be called: its text, its SHA-1, and its KEYS.
struct Loaded {
    text: String,
    sha: Vec<u8>,
    keys: Vec<Vec<u8>>,
}

/// A server that is there for one walk at a time, and the proxy before it.
pub(crate) struct Server {
    pub(crate) keys: ShardKeys,
    loaded: BTreeMap<&'static str, Loaded>,
    dump: Vec<u8>,
    /// The server's clock at the last call, and when that was by ours.
    seen: (Ms, Instant),
    /// Straight to the server, for what the test itself wants to know.
    look: Link,
    /// Through the proxy, as a role would be connected.
    caller: Option<Link>,
    proxy: Proxy,
    redis: RedisServer,
    runtime: Runtime,
    /// Whether what it was told outlives a crash.
    pub(crate) keeps: bool,
}

impl Server {
    /// Starts a server. `keeps`: each write is on disk before it is answered.
    pub(crate) fn start(keeps: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let redis = runtime.block_on(RedisServer::with(|it| {
            it.appendonly = keeps;
            it.appendfsync = AppendFsync::Always;
        }));
        let proxy = runtime.block_on(Proxy::start(redis.port()));
        let queue = QueueName::try_from("q").expect("a name");
        let keys = ShardKeys::new(&queue, 0);
        let look = listen(redis.port(), &keys).expect("the server is there");
        let (loaded, dump, seen) = (BTreeMap::new(), Vec::new(), (0, Instant::now()));
        let caller = None;
        let mut server =
            Self { keys, loaded, dump, seen, look, caller, proxy, redis, runtime, keeps };
        server.load(&Texts::shipped());
        server
    }

    /// From now on, these texts run.
    pub(crate) fn load(&mut self, texts: &Texts) {
        let dump = Vec::from(DUMP);
        self.dump =
            self.look.one(command([b"SCRIPT", b"LOAD", &dump])).expect("loaded").bytes().into();
        SCRIPTS.iter().for_each(|name| self.load_one(texts, name).expect("it is Lua"));
        let time = self.look.one(command([b"TIME"])).expect("the time");
        self.seen = (clock(&time).expect("the time"), Instant::now());
    }

    /// From now on, this text of one script runs. Fails if it is none.
    pub(crate) fn load_one(&mut self, texts: &Texts, name: &'static str) -> Result<(), String> {
        // All keys of a shard begin alike.
        let prefix = self.keys.pending.trim_end_matches("pending");
        let keys = scripts::keys(texts.file(name)).into_iter();
        let keys = keys.map(|key| format!("{prefix}{key}").into_bytes()).collect();
        let text = texts.script(name);
        let answer = self.look.one(command([b"SCRIPT", b"LOAD", text.as_bytes()]));
        let Value::Bytes(sha) = answer.map_err(|err| err.to_string())? else {
            return Err("it is no Lua".to_owned());
        };
        self.loaded.insert(name, Loaded { text, sha, keys });
        Ok(())
    }

    /// Nothing of an earlier walk is on its way any more.
    pub(crate) fn calm(&mut self) {
        if self.proxy.held() > 0 {
            self.runtime.block_on(self.proxy.release_held());
        }
        // Without an answer the walk ends with its first call.
        drop(self.look.one(command([b"PING"])));
        self.look.messages();
    }

    /// The server's clock, as far as it is known without asking.
    pub(crate) fn now(&self) -> Ms {
        self.seen.0 + self.seen.1.elapsed().as_millis() as Ms
    }

    /// The key of a call's script that such a number stands for; none of the channels. What a script reads beside its
    /// work, or only where there is something to write, is met more often.
    pub(crate) fn key(&self, call: &Call, number: usize) -> Vec<u8> {
        if let Some(registry) = call.registry() {
            return registry.into();
        }
        let (keys, our) = (&self.loaded[call.script()].keys, &self.keys);
        let seldom =
            [&our.request, &our.suspects, &our.pending, &our.result, &our.dead, &our.finished]
                .map(|key| key.as_bytes());
        let channels = [&our.ended, &our.cancel].map(|key| key.as_bytes());
        let keys: Vec<_> = keys.iter().filter(|key| !channels.contains(&key.as_slice())).collect();
        match seldom.get(number % 12) {
            Some(key) if keys.iter().any(|it| it == key) => key.to_vec(),
            _ => keys[number % keys.len()].clone(),
        }
    }

    /// Runs one call; `before` is laid on the server first, in the place of what is there.
    pub(crate) fn run(
        &mut self,
        call: &Call,
        before: Option<&Shard>,
        fault: Fault,
    ) -> io::Result<Outcome> {
        let mut flight = before.map(lay).unwrap_or_default();
        let words = self.words(call);
        if fault.is_unanswered() {
            flight.push(command([b"TIME"]));
            let from = clock(self.look.flight(&flight)?.last().expect("the time"))?;
            let reply = self.send(&words, fault)?;
            return self.after(from, reply);
        }
        let (made, undone) = match fault {
            Fault::Full => (
                vec![command([b"CONFIG", b"SET", b"maxmemory", b"1"])],
                vec![command([b"CONFIG", b"SET", b"maxmemory", b"0"])],
            ),
            Fault::Mistyped(number) => {
                (vec![command([b"SET", &self.key(call, number), MISTYPED])], Vec::new())
            }
            Fault::Denied(_) => {
                let user = |sign| format!("{sign}{}", fault.denied().unwrap_or_default());
                let set = |sign| command([b"ACL", b"SETUSER", b"default", user(sign).as_bytes()]);
                (vec![set('-')], vec![set('+')])
            }
            Fault::Forgotten => (vec![command([b"SCRIPT", b"FLUSH"])], self.reload()),
            _ => (Vec::new(), Vec::new()),
        };
        flight.extend(made);
        let skipped = flight.len();
        flight.push(command([b"TIME"]));
        flight.push(words);
        flight.push(command([b"TIME"]));
        flight.extend(undone);
        flight.push(command([b"EVALSHA", &self.dump, b"0"]));
        let answers = self.look.flight(&flight)?;
        let [from, reply, till, .., dump] = &answers[skipped..] else { panic!("four answers") };
        self.outcome((clock(from)?, clock(till)?), Some(reply.clone()), dump)
    }

    fn words(&self, call: &Call) -> Command {
        let Loaded { sha, keys, .. } = &self.loaded[call.script()];
        let keys = call.registry().map_or_else(|| keys.clone(), |registry| vec![registry.into()]);
        let head = [b"EVALSHA".to_vec(), sha.clone(), keys.len().to_string().into_bytes()];
        head.into_iter().chain(keys).chain(call.args()).collect()
    }

    fn reload(&self) -> Vec<Command> {
        let texts = self.loaded.values().map(|it| it.text.as_str()).chain([DUMP]);
        texts.map(|text| command([b"SCRIPT", b"LOAD", text.as_bytes()])).collect()
    }

    /// Sends a call through the proxy, where this happens to it.
    fn send(&mut self, words: &Command, fault: Fault) -> io::Result<Option<Value>> {
        let mut caller = match self.caller.take() {
            Some(caller) => caller,
            None => Link::open(self.proxy.port())?,
        };
        // Only a line that is through can be cut.
        caller.one(command([b"PING"]))?;
        let sha = String::from_utf8_lossy(&words[1]).into_owned();
        let fault = match fault {
            Fault::Cut => {
                self.proxy.cut_all();
                // Until then, what is sent may still pass.
                let began = Instant::now();
                while self.proxy.connections() > 0 && began.elapsed() < LIMIT {
                    std::thread::yield_now();
                }
                None
            }
            Fault::LostReply => Some(proxy::Fault::LoseReply),
            Fault::Late => Some(proxy::Fault::HoldRequest),
            _ => Some(proxy::Fault::Swallow),
        };
        let silent = fault == Some(proxy::Fault::Swallow);
        let injected = fault.map(|it| self.proxy.inject(it, When::Nth(1), proxy::evalsha(&sha)));
        // A line that is cut already takes nothing, or takes it and answers nothing.
        let sent = caller.send(std::slice::from_ref(words));
        if let Some(injected) = injected {
            self.runtime.block_on(injected.wait_fired(1, LIMIT));
        }
        let answer = if silent { None } else { sent.and_then(|()| caller.answer()).ok() };
        self.proxy.clear();
        Ok(answer)
    }

    /// Lets the call run that was kept on its way; `before` is laid first.
    pub(crate) fn release(&mut self, before: Option<&Shard>) -> io::Result<Outcome> {
        let mut flight = before.map(lay).unwrap_or_default();
        flight.push(command([b"TIME"]));
        let from = clock(self.look.flight(&flight)?.last().expect("the time"))?;
        let answers = self.runtime.block_on(self.proxy.release_held());
        let reply = answers.first().map(value);
        self.after(from, reply)
    }

    fn after(&mut self, from: Ms, reply: Option<Value>) -> io::Result<Outcome> {
        let answers =
            self.look.flight(&[command([b"TIME"]), command([b"EVALSHA", &self.dump, b"0"])])?;
        let [till, dump] = &answers[..] else { panic!("two answers") };
        self.outcome((from, clock(till)?), reply, dump)
    }

    fn outcome(
        &mut self,
        between: (Ms, Ms),
        reply: Option<Value>,
        dump: &Value,
    ) -> io::Result<Outcome> {
        self.seen = (between.1, Instant::now());
        Ok(Outcome { between, reply, shard: read(dump)?, messages: self.look.messages() })
    }

    /// How much is on disk: what `crash` can go back to.
    pub(crate) fn mark(&self) -> u64 {
        if self.keeps { fs::metadata(self.log()).map_or(0, |it| it.len()) } else { 0 }
    }

    /// Kills the server, makes it forget all that was written behind `mark`, and starts it again. Gives what it holds then.
    pub(crate) fn crash(&mut self, mark: u64) -> io::Result<Shard> {
        self.runtime.block_on(self.redis.kill());
        fs::OpenOptions::new().write(true).open(self.log())?.set_len(mark)?;
        self.back()?;
        read(&self.look.one(command([b"EVALSHA", &self.dump, b"0"]))?)
    }

    /// A server that hangs is of no use to the next walk.
    pub(crate) fn renew(&mut self) {
        self.runtime.block_on(self.redis.kill());
        self.back().expect("the server is there again");
    }

    fn back(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.redis.restart());
        self.caller = None;
        self.look = listen(self.redis.port(), &self.keys)?;
        self.look.flight(&self.reload()).map(drop)
    }

    /// The file that each write goes to.
    fn log(&self) -> PathBuf {
        let folder = self.redis.dir().join("appendonlydir");
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path());
        let log = files.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max();
        log.expect("the append-only file")
    }
}

/// Connects, and hears what the scripts tell.
fn listen(port: u16, keys: &ShardKeys) -> io::Result<Link> {
    let mut link = Link::open(port)?.with_pushes()?;
    for channel in [&keys.ended, &keys.cancel] {
        link.subscribe(channel.as_bytes())?;
    }
    Ok(link)
}

/// What TIME tells. A server that is busy tells something else.
fn clock(time: &Value) -> io::Result<Ms> {
    match time {
        Value::Array(parts) if parts.len() == 2 => {
            Ok(parts[0].digits() * 1000 + parts[1].digits() / 1000)
        }
        other => Err(io::Error::other(other.show())),
    }
}
