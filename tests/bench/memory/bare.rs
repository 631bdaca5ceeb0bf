//! The floor: a client over the HTTP library of the worker, and nothing else, in a process of its own. It knows no Redis, no
//! lease and no time-out, and has its calls in flight for good.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_testkit::{Process, eventually, free_port};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::task::{JoinSet, spawn_blocking};

/// How long it may take to start.
const SOON: Duration = Duration::from_secs(30);

/// Calls on one connection of HTTP/2: as many as a worker puts there.
const STREAMS: usize = 100;

/// What is called, and how.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Calls {
    /// Where it listens to how many calls there are to be
    line: u16,
    /// Where they go
    target: u16,
    /// Bytes of a body
    size: usize,
    /// Over HTTP/2; else over HTTP/1.1
    #[arg(long)]
    http2: bool,
}

/// A running client.
pub(super) struct Bare {
    line: TcpStream,
    process: Process,
}

impl Bare {
    /// Starts one that calls nothing yet.
    pub(super) async fn start(target: u16, http2: bool, size: usize) -> Self {
        let program = std::env::current_exe().expect("the bench knows its own file");
        let port = free_port();
        let [line, target, size] = [port.to_string(), target.to_string(), size.to_string()];
        let mut args = vec!["bare".to_owned(), line, target, size];
        args.extend(http2.then(|| "--http2".to_owned()));
        let process = Process::start(program, &args, &[]);
        let line = eventually("the bare client listens", SOON, async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(|err| err.to_string())
        })
        .await;
        Self { line, process }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// So many calls more.
    pub(super) async fn add(&mut self, calls: usize) {
        self.line.write_u64(calls as u64).await.expect("the bare client listens");
    }
}

/// The client's own process: it ends with its line. It has as many threads as a role.
pub(crate) async fn run(calls: Calls) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let called = spawn_blocking(move || {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(threads).enable_all().build().expect("a runtime");
        runtime.block_on(call(calls))
    });
    called.await.expect("it calls")
}

async fn call(Calls { line, target, size, http2 }: Calls) -> ExitCode {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, line)).await.expect("a line");
    let (mut line, _) = listener.accept().await.expect("the bench connects");
    let uri = format!("http://127.0.0.1:{target}/v1/chat/completions");
    let (mut client, mut count, mut calls) = (open(http2), 0, JoinSet::new());
    while let Ok(more) = line.read_u64().await {
        for _ in 0..more {
            // Over HTTP/1.1 each call has a connection of its own, and one client opens them all.
            if http2 && count == STREAMS {
                (client, count) = (open(http2), 0);
            }
            count += 1;
            let request = Request::post(&uri).header("content-type", "application/json");
            let request = request.body("x".repeat(size)).expect("a request");
            calls.spawn(client.request(request));
        }
    }
    ExitCode::SUCCESS
}

fn open(http2: bool) -> Client<HttpConnector, String> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let mut client = Client::builder(TokioExecutor::new());
    client.pool_timer(TokioTimer::new()).http2_only(http2).build(connector)
}
