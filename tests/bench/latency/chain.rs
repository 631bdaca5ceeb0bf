//! The hops of a request and nothing else: what lies under the way of one alone.
//!
//! A front takes a call and pushes its body to a list; a back, woken from its BLPOP, calls the gateway and pushes the answer to another
//! list; the front, woken from its own BLPOP, answers. Both are processes of one thread and a few lines. Nothing has an id, an owner or a
//! deadline, and what is popped is lost with who popped it.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_testkit::{Client, Http, Process, eventually, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::caller::is_whole;
use crate::pickup::JSON;
use crate::sleeper::popped;

/// How long it may take to start.
const SOON: Duration = Duration::from_secs(30);

/// What was called, and what came of it. The bench's own.
const CALLS: &str = "bench-calls";
const ANSWERS: &str = "bench-answers";

/// Both processes.
pub(super) struct Chain {
    port: u16,
    _both: [Process; 2],
}

impl Chain {
    /// Starts them between a Redis and a gateway.
    pub(super) async fn start(redis: u16, gateway: u16) -> Self {
        let program = std::env::current_exe().expect("the bench knows its own file");
        let port = free_port();
        let start = |role: &str, to: u16| {
            let args = ["chain".to_owned(), role.to_owned(), redis.to_string(), to.to_string()];
            Process::start(&program, &args, &[])
        };
        let both = [start("front", port), start("back", gateway)];
        eventually("the front takes calls", SOON, async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map(drop)
        })
        .await;
        Self { port, _both: both }
    }

    /// Where it is called.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

/// Which half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Half {
    /// Takes calls
    Front,
    /// Makes them
    Back,
}

/// One half in a process of its own: it ends when it is killed.
pub(crate) async fn run(half: Half, redis: u16, to: u16) -> ExitCode {
    match half {
        Half::Front => front(redis, to).await,
        Half::Back => back(redis, to).await,
    }
}

/// One connection after another: there is one caller.
async fn front(redis: u16, port: u16) -> ExitCode {
    let client = Client::new(redis);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("a port");
    loop {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a connection without delay");
        let mut call = Vec::with_capacity(4096);
        while stream.read_buf(&mut call).await.is_ok_and(|read| read > 0) {
            if !is_whole(&call) {
                continue;
            }
            let body = call.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            client.command(&[b"RPUSH".as_slice(), CALLS.as_bytes(), &call[body..]]).await;
            let answer = loop {
                if let Some(answer) = popped(&client, ANSWERS).await {
                    break answer;
                }
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all((head + &answer).as_bytes()).await.expect("the caller reads");
            call.clear();
        }
    }
}

async fn back(redis: u16, gateway: u16) -> ExitCode {
    let (client, http) = (Client::new(redis), Http::new());
    let url = format!("http://127.0.0.1:{gateway}/v1/chat/completions");
    loop {
        if let Some(call) = popped(&client, CALLS).await {
            let answer = http.request("POST", &url, JSON, call).await;
            client.command(&["RPUSH", ANSWERS, answer.text()]).await;
        }
    }
}
