//! One hop and nothing else, in a process of its own: the server and the client that our roles use, body in, body out.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use holdfast_testkit::{Process, eventually, free_port};
use hyper::body::Incoming;
use hyper::http::uri::{Authority, Scheme};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::task::{JoinSet, spawn_blocking};

/// How long it may take to start.
const SOON: Duration = Duration::from_secs(30);

type Onward = Client<HttpConnector, Incoming>;

/// A running forwarder.
pub(super) struct Forwarder {
    port: u16,
    process: Process,
}

impl Forwarder {
    /// Starts one that leads to a port.
    pub(super) async fn start(target: u16) -> Self {
        let program = std::env::current_exe().expect("the bench knows its own file");
        let port = free_port();
        let args = ["forwarder".to_owned(), port.to_string(), target.to_string()];
        let process = Process::start(program, &args, &[]);
        eventually("the forwarder takes calls", SOON, async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map(drop)
        })
        .await;
        Self { port, process }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// The forwarder's own process: it ends when it is killed. It has as many threads as a role.
pub(crate) async fn run(port: u16, target: u16) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let served = spawn_blocking(move || {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(threads).enable_all().build().expect("a runtime");
        runtime.block_on(serve(port, target))
    });
    served.await.expect("it serves")
}

async fn serve(port: u16, target: u16) -> ExitCode {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let onward: Onward =
        Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
    let target = Authority::try_from(format!("127.0.0.1:{target}")).expect("an authority");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("a port");
    let mut open = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a connection without delay");
        let (onward, target) = (onward.clone(), target.clone());
        let service = service_fn(move |request| forward(onward.clone(), target.clone(), request));
        // Its errors are clients that went away.
        open.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        while open.try_join_next().is_some() {}
    }
}

async fn forward(
    onward: Onward,
    target: Authority,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, Error> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    (parts.scheme, parts.authority) = (Some(Scheme::HTTP), Some(target));
    *request.uri_mut() = Uri::from_parts(parts).expect("an address");
    onward.request(request).await
}
