//! Connections to Redis in a play: commands come in order and are answered in order, as far as the schedule lets them.

use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_model::{call::Call, value::Value};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream, unix::OwnedReadHalf},
    sync::mpsc,
    task::JoinSet,
    time::{Duration, Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    fate::{End, Fate},
    resp::{Decoder, encode},
    told::Told,
    world::{Actor, Asked, Shared},
};

/// After so many ms of silence the client gives a connection up. It does so by a clock of its own, which stands still
/// in a play, so the server's end does it here; but for connections on which it waits.
const SILENCE: u64 = 1_500;
/// How long a call may take, in ms; and how much longer than it asked for a wait at the bell.
const CALL: u64 = 2_000;
const BELL: u64 = 500;

/// Longer than a play.
const FOR_EVER: u64 = 10_000_000;

/// What arrives after its connection has broken.
pub(crate) type Late = mpsc::UnboundedSender<(u64, Asked)>;

/// Takes the connections of one actor.
pub(crate) async fn listen(world: Shared, actor: Actor, listener: UnixListener, late: Late) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let (is_down, up) = {
            let world = world.lock();
            world.moved.note();
            (world.now() < world.down_until || world.is_gone(actor), world.up.clone())
        };
        if is_down {
            world.lock().is_cut_off(actor);
            continue;
        }
        connections.spawn(serve(world.clone(), actor, stream, up, late.clone()));
    }
}

/// Runs what arrives late.
pub(crate) async fn run_late(world: Shared, mut late: mpsc::UnboundedReceiver<(u64, Asked)>) {
    let mut waiting = JoinSet::new();
    while let Some((after, asked)) = late.recv().await {
        let world = world.clone();
        waiting.spawn(async move {
            sleep(Duration::from_millis(after)).await;
            let mut world = world.lock();
            world.tell(|| format!("late: {} of {}", asked.name, asked.at));
            let _ = world.run(&asked);
        });
    }
}

async fn serve(world: Shared, actor: Actor, stream: UnixStream, up: CancellationToken, late: Late) {
    let (read, mut write) = stream.into_split();
    let (sender, commands) = mpsc::unbounded_channel();
    let (closed, cut) = (CancellationToken::new(), CancellationToken::new());
    let line = Line { world: world.clone(), actor, closed: closed.clone(), late };
    let hear = async {
        tokio::select! {
            () = hear(&world, actor, read, sender) => {}
            () = cut.cancelled() => {}
        }
        closed.cancel();
    };
    let answer = async {
        tokio::select! {
            () = line.answer(commands, &mut write) => {}
            () = up.cancelled() => {}
        }
        cut.cancel();
    };
    tokio::join!(hear, answer);
    let mut world = world.lock();
    world.moved.note();
    world.is_cut_off(actor);
}

/// Takes commands as they come, until the client is gone.
async fn hear(
    world: &Shared,
    actor: Actor,
    mut read: OwnedReadHalf,
    commands: mpsc::UnboundedSender<Asked>,
) {
    let (mut decoder, mut bytes) = (Decoder::default(), vec![0; 1 << 14]);
    loop {
        let length = read.read(&mut bytes).await.unwrap_or(0);
        world.lock().moved.note();
        if length == 0 {
            return;
        }
        decoder.feed(&bytes[..length]);
        while let Some(words) = decoder.next() {
            let mut world = world.lock();
            if world.is_gone(actor) {
                return;
            }
            let asked = world.asked(actor, words);
            drop(world);
            if commands.send(asked).is_err() {
                return;
            }
        }
    }
}

/// How a command went.
enum Went {
    Answered(Value, Told),
    /// The connection is at its end.
    Broken,
}

/// A connection as the server has it.
struct Line {
    world: Shared,
    actor: Actor,
    closed: CancellationToken,
    late: Late,
}

impl Line {
    async fn answer(
        &self,
        mut commands: mpsc::UnboundedReceiver<Asked>,
        write: &mut (impl AsyncWriteExt + Unpin),
    ) {
        let (pushes, mut pushed) = mpsc::unbounded_channel();
        // Until when its client waits at the bell, once it has.
        let mut at_bell = None;
        loop {
            let asked = tokio::select! {
                biased;
                Some(push) = pushed.recv() => {
                    self.silence().await;
                    self.write(&push, write).await;
                    continue;
                }
                asked = commands.recv() => asked,
            };
            let Some(asked) = asked else { return };
            if asked.words[0] == b"SSUBSCRIBE" {
                self.world.lock().subscribe(pushes.clone());
            }
            let sent = asked.at;
            if asked.words[0] == b"BLPOP" {
                at_bell = Some(sent + wait_of(&asked).as_millis() as u64 + BELL);
            }
            let (fate, now) = {
                let mut world = self.world.lock();
                (world.fate(self.actor, &asked.name), world.now())
            };
            let left = if at_bell.is_some() { FOR_EVER } else { SILENCE };
            let left = (sent + left).saturating_sub(now);
            let ran = AtomicBool::new(false);
            let run = self.run(&asked, fate, &ran, &mut commands);
            match timeout(Duration::from_millis(left), run).await {
                Ok(Went::Answered(value, told)) => {
                    if self.closed.is_cancelled() || !self.write(&value, write).await {
                        return;
                    }
                    let mut world = self.world.lock();
                    // Later, as after a stall, its client may have given up on the call.
                    if world.now() < at_bell.unwrap_or(sent + CALL) {
                        world.hears(self.actor, sent, told);
                    } else {
                        world.may_hear(self.actor, sent, told);
                    }
                }
                Ok(Went::Broken) => return,
                Err(_) => {
                    self.world.lock().tell(|| {
                        format!("{} gives {} (of {sent}) up", self.actor.name(), asked.name)
                    });
                    if fate.runs_on && !ran.load(Ordering::Relaxed) && asked.call.is_some() {
                        let _ = self.late.send((fate.before, asked));
                    }
                    return;
                }
            }
        }
    }

    async fn write(&self, value: &Value, write: &mut (impl AsyncWriteExt + Unpin)) -> bool {
        let mut bytes = Vec::new();
        encode(value, &mut bytes);
        let written = write.write_all(&bytes).await;
        self.world.lock().moved.note();
        written.is_ok()
    }

    /// Runs one command as its fate wants it.
    async fn run(
        &self,
        asked: &Asked,
        fate: Fate,
        ran: &AtomicBool,
        rest: &mut mpsc::UnboundedReceiver<Asked>,
    ) -> Went {
        let actor = self.actor.name();
        self.pass(fate.before).await;
        self.silence().await;
        let name = asked.name.clone();
        match fate.end {
            End::Lost => {
                self.world.lock().tell(|| format!("{actor} {name} is lost"));
                return Went::Broken;
            }
            End::Late(after) => {
                self.world.lock().tell(|| format!("{actor} {name} will be late"));
                self.run_late(after, asked.clone(), rest);
                return Went::Broken;
            }
            // Its client hung up while it was under way.
            _ if self.closed.is_cancelled() && !fate.runs_on => return Went::Broken,
            _ => {}
        }
        ran.store(true, Ordering::Relaxed);
        let (value, told) = match asked.words[0].as_slice() {
            b"BLPOP" => match self.wait(asked).await {
                Some(value) => (value, Told::Nothing),
                None => return Went::Broken,
            },
            b"SSUBSCRIBE" => (subscribed(asked), Told::Nothing),
            _ if fate.end == End::Refused => {
                let told = match &asked.call {
                    Some(Call::Claim(claim)) => Told::NoClaim(claim.fence.call),
                    _ => Told::Nothing,
                };
                (Value::Error("BUSY Redis is busy running a script.".to_owned()), told)
            }
            _ => self.world.lock().run(asked),
        };
        let is_dull = ["PING", "CLIENT", "INFO", "SCRIPT", "SSUBSCRIBE"].contains(&name.as_str());
        let is_nothing =
            self.actor == Actor::Reclaimer && matches!(&value, Value::Array(all) if all.is_empty());
        if !is_dull && !is_nothing {
            self.world.lock().tell(|| shown(&actor, asked, &value));
        }
        self.pass(fate.after).await;
        self.silence().await;
        if fate.end == End::Unanswered {
            self.world.lock().tell(|| format!("{actor} {name} is not answered"));
            return Went::Broken;
        }
        Went::Answered(value, told)
    }

    /// What was sent arrives after its connection has broken. What waits there is dropped.
    fn run_late(&self, after: u64, asked: Asked, rest: &mut mpsc::UnboundedReceiver<Asked>) {
        if asked.call.is_some() {
            let _ = self.late.send((after, asked));
        }
        while let Ok(asked) = rest.try_recv() {
            if asked.call.is_some() {
                let _ = self.late.send((after + 1, asked));
            }
        }
    }

    async fn pass(&self, ms: u64) {
        if ms > 0 {
            sleep(Duration::from_millis(ms)).await;
        }
    }

    /// Waits while nothing gets through.
    async fn silence(&self) {
        loop {
            let left = {
                let world = self.world.lock();
                let end = world.silent_until.get(&self.actor).copied().unwrap_or(0);
                end.saturating_sub(world.now())
            };
            if left == 0 {
                return;
            }
            // It may be over before.
            self.pass(left.min(200)).await;
        }
    }

    /// Waits for a token; none: the client is gone, and what it sent behind is dropped.
    async fn wait(&self, asked: &Asked) -> Option<Value> {
        let limit = Instant::now() + wait_of(asked);
        loop {
            let bell = {
                let mut world = self.world.lock();
                if world.state.bell > 0 {
                    world.state.bell -= 1;
                    let key = asked.words[1].clone();
                    return Some(Value::Array(vec![
                        Value::Bytes(key),
                        Value::Bytes(b"1".to_vec()),
                    ]));
                }
                std::sync::Arc::clone(&world.bell)
            };
            let rung = bell.notified();
            tokio::select! {
                () = rung => {}
                () = self.closed.cancelled() => return None,
                () = sleep_until(limit) => return Some(Value::Nil),
            }
        }
    }
}

/// How long a command waits.
fn wait_of(asked: &Asked) -> Duration {
    let limit = asked.words.last().and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
    Duration::from_secs_f64(limit.unwrap_or(1.0))
}

fn subscribed(asked: &Asked) -> Value {
    let channel = Value::Bytes(asked.words[1].clone());
    Value::Push(vec![Value::Bytes(b"ssubscribe".to_vec()), channel, Value::Number(1)])
}

/// A command and its answer, for a person's eyes.
fn shown(actor: &str, asked: &Asked, value: &Value) -> String {
    let words = |value: &Value| match value {
        Value::Array(answers) => {
            let word = |answer: &Value| match answer {
                Value::Array(parts) => parts.first().map(Value::show).unwrap_or_default(),
                other => other.show(),
            };
            answers.iter().map(word).collect::<Vec<_>>().join(" ")
        }
        other => other.show(),
    };
    let call = match &asked.call {
        Some(Call::Claim(claim)) => format!("claim {} free {}", claim.fence.call, claim.free),
        Some(Call::Renew { leases, .. }) => {
            let them = leases.iter().map(|(fence, it)| format!("{}:{}", it.id.0, fence.call));
            format!("renew {}", them.collect::<Vec<_>>().join(" "))
        }
        Some(Call::Settle(rows)) => {
            let row = |row: &holdfast_model::call::Settle| {
                format!("{}:{} {}", row.handle.id.0, row.fence.call, row.word.text())
            };
            format!("settle {}", rows.iter().map(row).collect::<Vec<_>>().join(", "))
        }
        _ => asked.name.clone(),
    };
    let mut answer = words(value);
    answer.truncate(100);
    format!("{actor} {call} (of {}) -> {answer}", asked.at)
}
