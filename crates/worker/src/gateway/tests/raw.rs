//! A server that answers with the bytes it is told to, and notes what reaches it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What the server does once it has read a request.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes, one after another with a pause between.
    Trickle(Vec<u8>, Duration),
    /// Does nothing for a while.
    Pause(Duration),
    /// Ends the connection properly.
    Close,
    /// Ends the connection by RST.
    Reset,
    /// Waits until the other side ends the connection.
    Hold,
}

/// How the server reads a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// As fast as it comes.
    Fast,
    /// Announces itself by `100 Continue`, then takes a little now and then.
    Slow,
    /// Not at all: the steps run at once.
    Not,
}

/// What has reached the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) connections: usize,
    /// Head and body of each request.
    pub(super) requests: Vec<(String, Vec<u8>)>,
    /// How often the other side left during [`Step::Hold`].
    pub(super) left: usize,
}

pub(super) struct RawGateway {
    pub(super) addr: SocketAddr,
    log: watch::Receiver<Log>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Script {
    reading: Reading,
    /// For the first request, the second, …; the last repeats.
    answers: Vec<Vec<Step>>,
}

impl RawGateway {
    /// Answers every request with the same bytes.
    pub(super) async fn answering(bytes: impl AsRef<[u8]>) -> Self {
        Self::start(Reading::Fast, vec![vec![Step::Send(bytes.as_ref().to_vec())]]).await
    }

    pub(super) async fn start(reading: Reading, answers: Vec<Vec<Step>>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let addr = listener.local_addr().unwrap();
        let (log, seen) = watch::channel(Log::default());
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, Arc::new(Script { reading, answers }), Arc::new(log)));
        Self { addr, log: seen, _serving: serving }
    }

    /// Waits until what was seen is as expected.
    pub(super) async fn saw(&self, what: &str, mut expected: impl FnMut(&Log) -> bool) -> Log {
        let mut log = self.log.clone();
        let seen = timeout(Duration::from_secs(10), log.wait_for(|log| expected(log))).await;
        let seen = seen.unwrap_or_else(|_| panic!("never seen: {what}; {:?}", self.log.borrow()));
        seen.unwrap().clone()
    }
}

async fn accept(listener: TcpListener, script: Arc<Script>, log: Arc<watch::Sender<Log>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        log.send_modify(|log| log.connections += 1);
        connections.spawn(serve(stream, Arc::clone(&script), Arc::clone(&log)));
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Script>, log: Arc<watch::Sender<Log>>) {
    let mut unread = Vec::new();
    loop {
        if script.reading != Reading::Not {
            let Some(request) = request(&mut stream, &mut unread, script.reading).await else {
                return;
            };
            log.send_modify(|log| log.requests.push(request));
        }
        let at = log.borrow().requests.len().saturating_sub(1).min(script.answers.len() - 1);
        for step in &script.answers[at] {
            match step {
                Step::Send(bytes) => stream.write_all(bytes).await.unwrap_or_default(),
                Step::Trickle(bytes, pause) => {
                    for byte in bytes {
                        stream.write_all(&[*byte]).await.unwrap_or_default();
                        sleep(*pause).await;
                    }
                }
                Step::Pause(pause) => sleep(*pause).await,
                Step::Close => return,
                Step::Reset => return stream.set_zero_linger().unwrap(),
                Step::Hold => {
                    while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
                    log.send_modify(|log| log.left += 1);
                    return;
                }
            }
        }
        if script.reading == Reading::Not {
            return;
        }
    }
}

/// Reads one request by its Content-Length.
async fn request(
    stream: &mut TcpStream,
    unread: &mut Vec<u8>,
    reading: Reading,
) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        more(stream, unread).await?;
    };
    let head = String::from_utf8(unread.drain(..end).collect()).unwrap();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let length: usize = length.expect("every request says its length");
    if reading == Reading::Slow {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
    }
    while unread.len() < length {
        if reading == Reading::Slow {
            sleep(Duration::from_millis(2)).await;
        }
        more(stream, unread).await?;
    }
    Some((head, unread.drain(..length).collect()))
}

async fn more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<()> {
    let mut buf = [0; 8 * 1024];
    match stream.read(&mut buf).await {
        Ok(read) if read > 0 => unread.extend_from_slice(&buf[..read]),
        _ => return None,
    }
    Some(())
}
