//! A target that vanishes without a word: nothing more comes on its connections, and new ones are answered.

use std::future::pending;

use holdfast_core::model::FailureCode;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::breaker::Sign;
use crate::classify::sign_of_fault;

/// Speaks HTTP/2 without TLS, behind a way that can lose the connections that it has.
struct Vanishing {
    addr: SocketAddr,
    /// How many of the first connections are dead.
    dead: watch::Sender<usize>,
    connections: watch::Receiver<usize>,
    _running: JoinSet<()>,
}

impl Vanishing {
    async fn start() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let behind = server.local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (dead, is_dead) = watch::channel(0);
        let (count, connections) = watch::channel(0);
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut serving = JoinSet::new();
            while let Ok((stream, _)) = server.accept().await {
                let echo = service_fn(|request: Request<Incoming>| async {
                    Ok::<_, Infallible>(hyper::Response::new(request.into_body()))
                });
                serving.spawn(
                    http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), echo),
                );
            }
        });
        running.spawn(async move {
            let mut relays = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let number = *count.borrow();
                let far = TcpStream::connect(behind).await.unwrap();
                let ((from_near, to_near), (from_far, to_far)) =
                    (near.into_split(), far.into_split());
                relays.spawn(relay(from_near, to_far, number, is_dead.clone()));
                relays.spawn(relay(from_far, to_near, number, is_dead.clone()));
                count.send_modify(|count| *count += 1);
            }
        });
        Self { addr, dead, connections, _running: running }
    }

    fn gateway(&self, target: Target) -> Gateway {
        Gateway::open(Target { http: Http::Two, ..target }).unwrap()
    }

    /// From here on nothing passes on the connections that there are.
    fn vanish(&self) {
        self.dead.send_replace(*self.connections.borrow());
    }
}

/// Passes bytes on, until the connection is dead: then it is kept, and nothing is said on it.
async fn relay(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    number: usize,
    mut dead: watch::Receiver<usize>,
) {
    let mut buf = [0; 4096];
    loop {
        tokio::select! {
            biased;
            () = async { drop(dead.wait_for(|dead| *dead > number).await) } => break,
            read = from.read(&mut buf) => match read {
                Ok(read) if read > 0 => to.write_all(&buf[..read]).await.unwrap_or_default(),
                _ => return,
            },
        }
    }
    pending().await
}

#[tokio::test]
async fn the_call_after_one_without_an_answer_goes_by_another_connection() {
    let server = Vanishing::start().await;
    let attempt_timeout = Duration::from_millis(500);
    let gateway = server.gateway(Target { attempt_timeout, ..target(server.addr) });
    whole(gateway.ask().await);
    server.vanish();
    assert_eq!(gateway.ask().await, Err(Fault::Unanswered));
    whole(gateway.ask().await);
    assert_eq!(*server.connections.borrow(), 2);
}

#[tokio::test]
async fn a_connection_that_is_dead_is_noticed_long_before_the_attempt_time_out() {
    let server = Vanishing::start().await;
    let silence = Duration::from_millis(200);
    let (stall_timeout, attempt_timeout) = (Duration::from_secs(30), Duration::from_secs(40));
    let gateway =
        server.gateway(Target { silence, stall_timeout, attempt_timeout, ..target(server.addr) });
    whole(gateway.ask().await);
    server.vanish();
    let started = Instant::now();
    let fault = gateway.ask().await.unwrap_err();
    assert_eq!(FailureCode::from(fault), FailureCode::Reset);
    let dead = Some(Sign::Dead { reason: "reset" });
    assert_eq!(sign_of_fault(fault), dead, "five of these open the breaker");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    whole(gateway.ask().await);
}

/// What keeps a connection known to whatever stands between, while a model thinks.
#[tokio::test]
async fn a_connection_on_which_an_answer_is_waited_for_is_kept_alive_by_tcp() {
    let server = RawGateway::start(Reading::Fast, vec![vec![Step::Hold]]).await;
    let (gateway, port) = (open(server.addr), format!(":{:04X}", server.addr.port()));
    let kept_alive = async {
        server.saw("the request", |log| log.requests.len() == 1).await;
        loop {
            let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            let ours = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
            // Our end: the port is the other's. The kind of its timer: 2 is the one that keeps it alive.
            let mut ours = ours.filter(|it| it.len() > 5 && it[2].ends_with(&port));
            if ours.any(|it| it[5].starts_with("02:")) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        reply = gateway.ask() => panic!("{reply:?}"),
        kept_alive = timeout(Duration::from_secs(5), kept_alive) => kept_alive.unwrap(),
    }
}
