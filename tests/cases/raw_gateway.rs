//! A gateway that answers with raw bytes, whatever it was asked: late, piece by piece, cut, or not at all.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use holdfast_testkit::{StandIn, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::fleet::SOON;

/// Longer than any case.
const FOREVER: Duration = Duration::from_secs(86_400);

/// What an arrival is answered, and how.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    bytes: Bytes,
    delay: Duration,
    pieces: Option<(usize, Duration)>,
    end: After,
}

/// What happens to the connection once the bytes are written.
#[derive(Clone, Copy, Debug)]
enum After {
    /// It serves on.
    Kept,
    /// It is reset.
    Reset,
    /// It stays, and nothing more comes.
    Silent,
}

/// A request that arrives, as the plan of a gateway sees it.
pub(crate) struct Asked<'a> {
    /// How many came before it with the same body.
    pub(crate) earlier: usize,
    /// Its body.
    pub(crate) body: &'a [u8],
}

/// A request that came in whole.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// When.
    pub(crate) at: Instant,
    /// Its body, byte for byte.
    pub(crate) body: Bytes,
    /// The port of the client's end.
    pub(crate) peer: u16,
    /// How it ended, and when; none while it is being answered.
    pub(crate) end: Option<(End, Instant)>,
}

/// How an arrival ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All its bytes were written, as far as the plan said.
    Given,
    /// The client went away first.
    Aborted,
}

/// How a gateway treats its connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// A kept connection on which so long nothing comes is closed.
    pub(crate) idle: Option<Duration>,
    /// A body is read in pieces of so many bytes, with a pause after each.
    pub(crate) reading: Option<(usize, Duration)>,
}

type Plan = Arc<dyn Fn(&Asked<'_>) -> Answer + Send + Sync>;

/// A gateway on loopback. Dropped, it and its connections are gone.
pub(crate) struct RawGateway {
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

struct Shared {
    plan: Mutex<Plan>,
    manners: Mutex<Manners>,
    arrivals: Mutex<Vec<Arrival>>,
}

impl Answer {
    /// These bytes, which should be a whole HTTP answer, or should not be one.
    pub(crate) fn raw(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), delay: Duration::ZERO, pieces: None, end: After::Kept }
    }

    /// A status with a JSON body; `headers` are whole lines.
    pub(crate) fn with(status: u16, headers: &[&str], body: &str) -> Self {
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let (kind, length) = ("Content-Type: application/json", body.len());
        Self::raw(format!(
            "HTTP/1.1 {status} X\r\n{kind}\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// A good answer.
    pub(crate) fn ok() -> Self {
        Self::with(200, &[], "{\"choices\":[{\"message\":{\"content\":\"fine\"}}]}")
    }

    /// Not before so much time has passed.
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// So many bytes at a time.
    pub(crate) fn in_pieces(self, bytes: usize, every: Duration) -> Self {
        Self { pieces: Some((bytes, every)), ..self }
    }

    /// Only so many bytes, then a reset.
    pub(crate) fn cut(self, bytes: usize) -> Self {
        let bytes = self.bytes.slice(..bytes.min(self.bytes.len()));
        Self { bytes, end: After::Reset, ..self }
    }

    /// Only so many bytes, then nothing more.
    pub(crate) fn stalled(self, bytes: usize) -> Self {
        let bytes = self.bytes.slice(..bytes.min(self.bytes.len()));
        Self { bytes, end: After::Silent, ..self }
    }
}

impl Asked<'_> {
    /// Whether its body contains this text.
    pub(crate) fn has(&self, mark: &str) -> bool {
        contains(self.body, mark)
    }
}

impl Arrival {
    /// Whether its body contains this text.
    pub(crate) fn has(&self, mark: &str) -> bool {
        contains(&self.body, mark)
    }

    /// Whether its client went away before it was answered.
    pub(crate) fn is_aborted(&self) -> bool {
        matches!(self.end, Some((End::Aborted, _)))
    }
}

impl RawGateway {
    /// Takes the place of a stand-in, on its address.
    pub(crate) async fn instead_of(
        stand_in: &mut StandIn,
        plan: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        stand_in.stop().await;
        Self::at(stand_in.address(), plan).await
    }

    /// A gateway at an address.
    pub(crate) async fn at(
        address: SocketAddr,
        plan: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        // A process that another test starts at this moment holds what listened here until it is a program of its own.
        let listener = eventually("the address of the gateway is free", SOON, async || {
            TcpListener::bind(address).await.map_err(|err| err.to_string())
        })
        .await;
        let shared = Arc::new(Shared {
            plan: Mutex::new(Arc::new(plan)),
            manners: Mutex::default(),
            arrivals: Mutex::default(),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&shared)));
        Self { shared, _accepting: accepting }
    }

    /// Answers otherwise from now on.
    pub(crate) fn plan(&self, plan: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static) {
        *lock(&self.shared.plan) = Arc::new(plan);
    }

    /// Treats connections otherwise from their next request on.
    pub(crate) fn manners(&self, manners: Manners) {
        *lock(&self.shared.manners) = manners;
    }

    /// All arrivals so far.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.shared.arrivals).clone()
    }

    /// Those whose body contains a text.
    pub(crate) fn arrivals_of(&self, mark: &str) -> Vec<Arrival> {
        let all = self.arrivals().into_iter();
        all.filter(|arrival| arrival.has(mark)).collect()
    }

    /// Waits until the arrivals are as wanted.
    pub(crate) async fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&[Arrival]) -> bool,
    ) {
        eventually(what, limit, async || {
            let arrivals = self.arrivals();
            if wanted(&arrivals) { Ok(()) } else { Err(format!("{} arrived", arrivals.len())) }
        })
        .await;
    }

    /// Waits until so many have arrived.
    pub(crate) async fn wait_for_arrivals(&self, count: usize, limit: Duration) {
        self.wait_until(&format!("{count} arrive"), limit, |arrivals| arrivals.len() >= count)
            .await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, peer)) = accepted {
                connections.spawn(serve(stream, peer.port(), Arc::clone(&shared)));
            },
            Some(served) = connections.join_next() => served.expect("the gateway's own code"),
        }
    }
}

async fn serve(mut stream: TcpStream, peer: u16, shared: Arc<Shared>) {
    // Otherwise the pieces of a trickle would be gathered by the kernel.
    stream.set_nodelay(true).expect("a connection");
    let mut unread = BytesMut::new();
    while let Some(body) = request(&mut stream, &mut unread, &shared).await {
        let (number, answer) = shared.take(body, peer);
        let given = give(&mut stream, &mut unread, &answer).await;
        let end = if given { End::Given } else { End::Aborted };
        lock(&shared.arrivals)[number].end = Some((end, Instant::now()));
        match answer.end {
            After::Kept if given => {}
            After::Silent if given => {
                gone(&mut stream, &mut unread).await;
                lock(&shared.arrivals)[number].end = Some((End::Aborted, Instant::now()));
                return;
            }
            After::Reset => {
                let lingering = stream.set_zero_linger();
                return lingering.expect("a reset");
            }
            _ => return,
        }
    }
}

/// The body of the next request; none once the client is gone, or was idle for too long.
async fn request(stream: &mut TcpStream, unread: &mut BytesMut, shared: &Shared) -> Option<Bytes> {
    let Manners { idle, reading } = *lock(&shared.manners);
    let end = loop {
        match unread.windows(4).position(|four| four == b"\r\n\r\n") {
            Some(at) => break at + 4,
            None => timeout(idle.unwrap_or(FOREVER), more(stream, unread)).await.ok()??,
        }
    };
    let head = unread.split_to(end);
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.expect("a request with a length").trim().parse().expect("a length");
    let (size, pause) = reading.unwrap_or((length, Duration::ZERO));
    while unread.len() < length {
        let mut piece = vec![0; size.min(length - unread.len())];
        stream.read_exact(&mut piece).await.ok()?;
        unread.extend_from_slice(&piece);
        sleep(pause).await;
    }
    Some(unread.split_to(length).freeze())
}

async fn more(stream: &mut TcpStream, unread: &mut BytesMut) -> Option<()> {
    let read = stream.read_buf(unread).await;
    read.is_ok_and(|read| read > 0).then_some(())
}

/// Gives an answer; false if the client went away first.
async fn give(stream: &mut TcpStream, unread: &mut BytesMut, answer: &Answer) -> bool {
    if !wait(stream, unread, answer.delay).await {
        return false;
    }
    let (size, every) = answer.pieces.unwrap_or((answer.bytes.len().max(1), Duration::ZERO));
    for piece in answer.bytes.chunks(size) {
        if stream.write_all(piece).await.is_err() || !wait(stream, unread, every).await {
            return false;
        }
    }
    true
}

/// Waits; false if the client goes away meanwhile.
async fn wait(stream: &mut TcpStream, unread: &mut BytesMut, time: Duration) -> bool {
    if time.is_zero() {
        return true;
    }
    tokio::select! {
        () = sleep(time) => true,
        () = gone(stream, unread) => false,
    }
}

/// Ends when the client has gone away. What it sends meanwhile is kept.
async fn gone(stream: &mut TcpStream, unread: &mut BytesMut) {
    while more(stream, unread).await.is_some() {}
}

impl Shared {
    /// Notes an arrival, and what it is answered.
    fn take(&self, body: Bytes, peer: u16) -> (usize, Answer) {
        let plan = Arc::clone(&lock(&self.plan));
        let mut arrivals = lock(&self.arrivals);
        let earlier = arrivals.iter().filter(|arrival| arrival.body == body).count();
        let answer = plan(&Asked { earlier, body: &body });
        arrivals.push(Arrival { at: Instant::now(), body, peer, end: None });
        (arrivals.len() - 1, answer)
    }
}

fn contains(body: &[u8], mark: &str) -> bool {
    body.windows(mark.len()).any(|part| part == mark.as_bytes())
}

/// Whole after any panic: every change is one push or one assignment.
fn lock<T: ?Sized>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
