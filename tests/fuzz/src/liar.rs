//! A server that speaks the protocol of Redis and says what it is told to say.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_core::Redis;
use holdfast_core::redis::Options;
use holdfast_local_redis::resp::{self, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::draws::Draws;
use crate::targets::truths;

/// How long a call waits: it is answered at once.
const LIMIT: Duration = Duration::from_secs(10);

/// How deep its arrays lie in each other.
const DEPTH: usize = 6;

/// Words that scripts and Redis answer with.
const WORDS: &[&str] = &[
    "claimed",
    "lease",
    "ended",
    "stale",
    "at",
    "none",
    "accepted",
    "known",
    "reused",
    "full",
    "over",
    "late",
    "undeclared",
    "requests",
    "bytes",
    "rate",
    "ok",
    "already",
    "fenced",
    "gone",
    "ack",
    "retry",
    "release",
    "bury",
    "held",
    "cancel",
    "lost",
    "pending",
    "suspects",
    "delayed",
    "leased",
    "finished",
    "dead",
    "nowhere",
    "same",
    "written",
    "differs",
    "newer",
    "registered",
    "rung",
    "depth",
    "taken",
    "q",
    "256 1",
    "4294967295 1",
    "18446744073709551616",
    "-1",
    "0",
    "1790000000000",
    "inf",
    "-inf",
    "nan",
    "1e400",
    "S3CRET",
    "redis_version:7.4.1\r\nrole:master",
    "valkey_version:9.1.2\r\naof_enabled:1\r\nmaxmemory_policy:noeviction",
    "{\"version\":\"1\"}",
    "asked",
    "bodyless",
    "broken",
    "cancelled",
    "changed",
    "dropped",
    "forgiven",
    "kept",
    "lapse",
    "lowered",
    "moved",
    "redriven",
    "returned",
    "set",
    "swept",
    "whole",
];

/// Errors that say that nothing ran, or something else went wrong.
const ERRORS: &[&str] = &[
    "ERR S3CRET",
    "NOSCRIPT no matching script",
    "OOM command not allowed",
    "WRONGTYPE of key",
    "BUSY running a script",
    "NOPERM no permissions",
    "LOADING the dataset",
    "MISCONF errors",
];

/// The server, and a client that is connected to it.
pub(crate) struct Liar {
    pub(crate) redis: Redis,
    says: Arc<Mutex<Vec<u8>>>,
    _server: JoinSet<()>,
}

impl Liar {
    /// Starts it, on a free port of this machine.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let says = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&says);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&told)));
            }
        });
        let options =
            Options { command_timeout: LIMIT, ..Options::new(format!("redis://127.0.0.1:{port}")) };
        Self { redis: Redis::open(options).expect("a client"), says, _server: server }
    }

    /// From now on it answers what these bytes make of it, and nulls when they are used up.
    pub(crate) async fn answer_with(&self, bytes: &[u8]) {
        *self.says.lock().unwrap_or_else(PoisonError::into_inner) = bytes.to_vec();
    }
}

async fn serve(mut stream: TcpStream, says: Arc<Mutex<Vec<u8>>>) {
    let mut unread = Vec::new();
    let mut chunk = [0; 16 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk).await {
        unread.extend_from_slice(&chunk[..read]);
        while let Ok(Some((command, used))) = resp::parse(&unread) {
            unread.drain(..used);
            let answer = answer(&command, &says);
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

fn answer(command: &Value, says: &Mutex<Vec<u8>>) -> Vec<u8> {
    let words = command.array().unwrap_or_default();
    let word = words.first().and_then(Value::text).unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        // What the client says on a new connection is none of the calls.
        "CLIENT" => match words.get(1).and_then(Value::text) {
            Some(part) if part.eq_ignore_ascii_case("ID") => b":7\r\n".to_vec(),
            _ => b"+OK\r\n".to_vec(),
        },
        "PING" | "AUTH" | "SELECT" | "HELLO" => b"+OK\r\n".to_vec(),
        // The connection asks for the version; a call asks for everything.
        "INFO" if words.len() < 2 || words[1].text() == Some("server") => {
            b"$19\r\nredis_version:7.4.1\r\n".to_vec()
        }
        _ => {
            let mut says = says.lock().unwrap_or_else(PoisonError::into_inner);
            let mut draws = Draws::new(&says);
            let mut frame = Vec::new();
            value(&mut draws, DEPTH, &mut frame);
            let rest = draws.rest().to_vec();
            *says = rest;
            frame
        }
    }
}

/// Writes one value.
fn value(draws: &mut Draws<'_>, depth: usize, frame: &mut Vec<u8>) {
    if draws.is_empty() {
        return frame.extend_from_slice(b"$-1\r\n");
    }
    let tag = draws.byte();
    match tag >> 5 {
        0..=2 if depth > 0 => {
            let count = usize::from(tag & 31);
            frame.extend_from_slice(format!("*{count}\r\n").as_bytes());
            (0..count).for_each(|_| value(draws, depth - 1, frame));
        }
        0..=3 => bulk(WORDS[usize::from(draws.byte()) % WORDS.len()].as_bytes(), frame),
        4 => {
            let truths = truths();
            bulk(&truths[usize::from(tag & 31) % truths.len()], frame);
        }
        5 => {
            let bytes = [draws.byte(), draws.byte(), draws.byte()];
            let number = i64::from(i32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]));
            let number = if tag & 1 == 1 { -number } else { number << (tag & 30) };
            frame.extend_from_slice(format!(":{number}\r\n").as_bytes());
        }
        6 => bulk(draws.piece(), frame),
        _ if tag == 255 => {
            let error = ERRORS[usize::from(draws.byte()) % ERRORS.len()];
            frame.extend_from_slice(format!("-{error}\r\n").as_bytes());
        }
        _ => frame.extend_from_slice(b"$-1\r\n"),
    }
}

fn bulk(bytes: &[u8], frame: &mut Vec<u8>) {
    frame.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    frame.extend_from_slice(bytes);
    frame.extend_from_slice(b"\r\n");
}
