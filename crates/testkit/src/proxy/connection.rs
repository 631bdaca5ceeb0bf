//! One connection: requests one way, answers the other, each answer beside the request it belongs to.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::fault::Fault;
use super::frames::{Frame, Frames};
use super::{Line, Shared, lock};

/// What the client is to see next, in the order of its requests.
enum Due {
    /// The server's next answer.
    Answer,
    /// The same, a while later.
    Later(Duration),
    /// The server's next answer is dropped, and the connection cut.
    Lost,
    /// An answer of the proxy's own.
    Own(Vec<u8>),
    /// The connection is cut.
    Cut,
    /// Nothing any more.
    Silence,
}

/// What the two directions of a connection know of each other.
#[derive(Default)]
struct Between {
    due: Mutex<VecDeque<Due>>,
    changed: Notify,
    /// Messages may come that nobody asked for.
    subscribed: AtomicBool,
    /// How many answers there will be can't be told any more: they pass as they come.
    uncounted: AtomicBool,
}

/// Carries a connection until one of its ends breaks, or a fault cuts it.
pub(super) async fn pump(client: TcpStream, server: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let between = Between::default();
    tokio::select! {
        done = requests(Frames::new(from_client), to_server, shared, &between) => done,
        done = answers(Frames::new(from_server), to_client, shared, &between) => done,
    }
}

async fn requests(
    mut from: Frames<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    between: &Between,
) -> io::Result<()> {
    while let Some(frame) = from.next().await? {
        shared.passable().await;
        let (raw, words) = frame.words();
        let fault = shared.fault_for(&words);
        if let Some(due) = fault.as_ref().and_then(|fault| instead(fault, &raw, shared)) {
            let ends = matches!(due, Due::Cut | Due::Silence);
            between.expect(due);
            if ends {
                // The other direction ends the connection, once it has delivered what was due before.
                pending::<()>().await;
            }
            continue;
        }
        if let Some(Fault::DelayRequest(delay)) = &fault {
            sleep(*delay).await;
        }
        // Before the request: its answer can be there in no time.
        between.expect_answers(&words, fault.as_ref());
        to.write_all(&raw).await?;
    }
    Ok(())
}

/// What the client sees of a request that doesn't reach the server; `None` if it does.
fn instead(fault: &Fault, raw: &[u8], shared: &Shared) -> Option<Due> {
    match fault {
        Fault::LoseReply | Fault::DelayReply(_) | Fault::DelayRequest(_) => None,
        Fault::HoldRequest => {
            lock(&shared.held).push(raw.to_vec());
            Some(Due::Cut)
        }
        Fault::Refuse(text) => Some(Due::Own(format!("-{text}\r\n").into_bytes())),
        Fault::Swallow => Some(Due::Silence),
    }
}

async fn answers(
    mut from: Frames<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    between: &Between,
) -> io::Result<()> {
    loop {
        match between.due_without_the_server() {
            Some(Due::Own(answer)) => {
                shared.passable().await;
                to.write_all(&answer).await?;
                continue;
            }
            Some(Due::Silence) => pending::<()>().await,
            Some(_) => return Ok(()),
            None => {}
        }
        tokio::select! {
            () = between.changed.notified() => {}
            frame = from.next() => {
                let Some(frame) = frame? else { return Ok(()) };
                shared.passable().await;
                match between.due_for(&frame) {
                    Due::Lost => return Ok(()),
                    Due::Later(delay) => sleep(delay).await,
                    _ => {}
                }
                to.write_all(&frame.raw).await?;
            }
        }
    }
}

impl Between {
    fn expect(&self, due: Due) {
        lock(&self.due).push_back(due);
        self.changed.notify_one();
    }

    /// Takes note of the answers that a request will have.
    fn expect_answers(&self, words: &[Vec<u8>], fault: Option<&Fault>) {
        let name = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        let channels = words.len().saturating_sub(1);
        let answers = match name.as_slice() {
            b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE" => {
                self.subscribed.store(true, Ordering::SeqCst);
                channels
            }
            b"UNSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SUNSUBSCRIBE" if channels == 0 => {
                self.uncounted.store(true, Ordering::SeqCst);
                1
            }
            b"UNSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SUNSUBSCRIBE" => channels,
            _ => 1,
        };
        let first = match fault {
            Some(Fault::LoseReply) => Due::Lost,
            Some(Fault::DelayReply(delay)) => Due::Later(*delay),
            _ => Due::Answer,
        };
        self.expect(first);
        (1..answers).for_each(|_| self.expect(Due::Answer));
    }

    /// What is due next, if it needs no answer of the server.
    fn due_without_the_server(&self) -> Option<Due> {
        let mut due = lock(&self.due);
        match due.front() {
            Some(Due::Own(_) | Due::Cut | Due::Silence) => due.pop_front(),
            _ => None,
        }
    }

    /// What is to happen to a frame of the server.
    fn due_for(&self, frame: &Frame) -> Due {
        let unasked = self.subscribed.load(Ordering::SeqCst) && frame.is_message();
        if unasked || self.uncounted.load(Ordering::SeqCst) {
            return Due::Answer;
        }
        lock(&self.due).pop_front().unwrap_or(Due::Answer)
    }
}

impl Shared {
    /// Waits while nothing may pass.
    async fn passable(&self) {
        // The sender is ours: there is always a next state to wait for.
        self.line
            .subscribe()
            .wait_for(|line| *line == Line::Open)
            .await
            .map(drop)
            .unwrap_or_default();
    }

    /// Shows a request to every rule; the first fault that applies happens.
    fn fault_for(&self, words: &[Vec<u8>]) -> Option<Fault> {
        let rules = lock(&self.rules).clone();
        rules.iter().fold(None, |fault, rule| {
            let next = rule.look(words, fault.is_some());
            fault.or(next.cloned())
        })
    }
}
