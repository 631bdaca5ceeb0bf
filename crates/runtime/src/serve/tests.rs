//! What callers can and can't do to a listener, from the outside.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::routing::{get, post};
use http_body::{Body as HttpBody, Frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::Sleep;
use tokio_util::sync::DropGuard;

use super::*;

mod places;
mod tls;

/// Long enough for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may be idle in these tests.
const IDLE: Duration = Duration::from_millis(300);

const LIMITS: HttpLimits = HttpLimits {
    max_connections: 16,
    max_headers: 16,
    max_head: 8 << 10,
    idle_timeout: IDLE,
    body_timeout: IDLE,
};

/// A listener that is served, until it is stopped.
struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: JoinSet<io::Result<()>>,
    /// Lets `/held` answer.
    release: Arc<Notify>,
    /// Told when `/held` has begun.
    begun: Arc<Notify>,
    /// Told when `/endless` has ended.
    given_up: CancellationToken,
}

impl Served {
    async fn start(limits: HttpLimits, drain: Duration) -> Self {
        Self::with(None, limits, drain).await
    }

    async fn with(tls: Option<Tls>, limits: HttpLimits, drain: Duration) -> Self {
        let listener = bind("listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, given_up) = <(CancellationToken, CancellationToken)>::default();
        let (release, begun) = <(Arc<Notify>, Arc<Notify>)>::default();
        let held = {
            let (release, begun) = (release.clone(), begun.clone());
            get(async move || {
                begun.notify_one();
                release.notified().await;
                "held"
            })
        };
        let endless = {
            let given_up = given_up.clone();
            async move || Body::new(Endless { _given_up: given_up.drop_guard() })
        };
        let app = Router::new()
            .route("/quick", get(async || "quick"))
            .route("/held", held)
            .route("/long", get(async || vec![b'x'; LONG]))
            .route("/late", get(async || Body::new(Late(Some(Box::pin(sleep(2 * IDLE)))))))
            .route("/endless", get(endless))
            .route("/body", post(body));
        let mut tasks = JoinSet::new();
        tasks.spawn(http(Listening { listener, tls }, app, limits, drain, stop.clone()));
        Self { address, stop, tasks, release, begun, given_up }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection that has sent this.
    async fn sent(&self, text: &str) -> TcpStream {
        let mut socket = self.connect().await;
        socket.write_all(text.as_bytes()).await.unwrap();
        socket
    }

    async fn ended(mut self) {
        let ended = timeout(PATIENCE, self.tasks.join_next()).await;
        ended.expect("the server ends").unwrap().unwrap().unwrap();
    }
}

/// Longer than all buffers between two ends.
const LONG: usize = 64 << 20;

/// An answer that goes on for as long as somebody reads.
struct Endless {
    _given_up: DropGuard,
}

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 8 << 10])))))
    }
}

/// An answer whose only piece comes late.
struct Late(Option<Pin<Box<Sleep>>>);

impl HttpBody for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            None => return Poll::Ready(None),
            Some(rest) => ready!(rest.as_mut().poll(cx)),
        }
        self.0 = None;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"late")))))
    }
}

async fn body(body: Result<Bytes, BytesRejection>) -> StatusCode {
    match body {
        Ok(_) => StatusCode::OK,
        Err(err) if BodyTimeout::caused(&err) => StatusCode::REQUEST_TIMEOUT,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

/// Everything until the other side closes.
async fn rest(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.expect("it closes");
    // A reset is a close as well.
    drop(read);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until this has come.
async fn wait_for(socket: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut text = String::new();
    let mut piece = [0; 1024];
    while !text.ends_with(end) {
        let read = timeout(PATIENCE, socket.read(&mut piece)).await.expect(end).unwrap();
        assert!(read > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
    }
    text
}

const QUICK: &str = "GET /quick HTTP/1.1\r\nhost: h\r\n\r\n";
const HELD: &str = "GET /held HTTP/1.1\r\nhost: h\r\n\r\n";

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let started = Instant::now();
    assert_eq!(rest(&mut served.connect().await).await, "");
    assert!(started.elapsed() >= IDLE);
}

#[tokio::test]
async fn a_head_that_does_not_end_is_closed_however_it_trickles() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let mut socket = served.sent("GET /quick HTTP/1.1\r\nx: ").await;
    let trickled = timeout(PATIENCE, async {
        while socket.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    trickled.await.expect("the server closes");
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request_and_closed_when_none_comes() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let mut socket = served.sent(QUICK).await;
    wait_for(&mut socket, "quick").await;
    socket.write_all(QUICK.as_bytes()).await.unwrap();
    wait_for(&mut socket, "quick").await;
    assert_eq!(rest(&mut socket).await, "");
}

#[tokio::test]
async fn a_request_may_take_longer_than_a_connection_may_be_idle() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let mut socket = served.sent(HELD).await;
    served.begun.notified().await;
    sleep(2 * IDLE).await;
    served.release.notify_one();
    wait_for(&mut socket, "held").await;
}

#[tokio::test]
async fn an_answer_may_pause_for_longer_than_a_connection_may_be_idle() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let mut socket = served.sent("GET /late HTTP/1.1\r\nhost: h\r\n\r\n").await;
    wait_for(&mut socket, "late\r\n0\r\n\r\n").await;
}

#[tokio::test]
async fn a_body_that_does_not_end_is_told_apart_from_a_broken_one() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let head = "POST /body HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nhalf";
    let told = rest(&mut served.sent(head).await).await;
    assert!(told.starts_with("HTTP/1.1 408"), "{told}");
    let head = "POST /body HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n";
    let told = rest(&mut served.sent(head).await).await;
    assert!(told.starts_with("HTTP/1.1 400"), "{told}");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_given_up() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let mut long = served.sent("GET /long HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let _endless = served.sent("GET /endless HTTP/1.1\r\nhost: h\r\n\r\n").await;
    timeout(PATIENCE, served.given_up.cancelled()).await.expect("the endless answer is given up");
    sleep(2 * IDLE).await;
    let length = rest(&mut long).await.len();
    assert!(length < LONG, "all of the long answer came");
}

#[tokio::test]
async fn a_slow_reader_gets_the_whole_answer() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let head = "GET /long HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    let mut socket = served.sent(head).await;
    let (started, mut piece, mut length) = (Instant::now(), vec![0; 1 << 20], 0);
    loop {
        match timeout(PATIENCE, socket.read(&mut piece)).await.unwrap().unwrap() {
            0 => break,
            read => length += read,
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(length > LONG, "only {length} bytes came");
    assert!(started.elapsed() > 2 * IDLE, "not slow: {:?}", started.elapsed());
}

#[tokio::test]
async fn a_head_that_is_too_long_or_has_too_many_lines_is_refused() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let many = (0..17).map(|at| format!("x{at}: y\r\n")).collect::<String>();
    let long = format!("x: {}\r\n", "y".repeat(9 << 10));
    for headers in [many, long] {
        let head = format!("GET /quick HTTP/1.1\r\n{headers}\r\n");
        let told = rest(&mut served.sent(&head).await).await;
        assert!(told.starts_with("HTTP/1.1 431"), "{told}");
    }
}

#[tokio::test]
async fn stopping_closes_what_is_idle_at_once_and_lets_the_rest_end() {
    let limits = HttpLimits { idle_timeout: PATIENCE, ..LIMITS };
    let served = Served::start(limits, PATIENCE).await;
    let mut silent = served.connect().await;
    let mut idle = served.sent(QUICK).await;
    wait_for(&mut idle, "quick").await;
    let mut half = served.sent("GET /quick HT").await;
    let mut running = served.sent(HELD).await;
    served.begun.notified().await;

    let stopped = Instant::now();
    served.stop.cancel();
    for socket in [&mut silent, &mut idle, &mut half] {
        assert_eq!(rest(socket).await, "");
    }
    assert!(stopped.elapsed() < PATIENCE / 2, "took {:?}", stopped.elapsed());
    assert!(TcpStream::connect(served.address).await.is_err(), "the listener is closed");
    served.release.notify_one();
    // A second request on the old connection is not taken.
    running.write_all(QUICK.as_bytes()).await.unwrap();
    let told = rest(&mut running).await;
    assert!(told.ends_with("held"), "{told}");
    served.ended().await;
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut() {
    let served = Served::start(LIMITS, IDLE).await;
    let mut running = served.sent(HELD).await;
    served.begun.notified().await;
    served.stop.cancel();
    assert_eq!(rest(&mut running).await, "");
    served.ended().await;
}

#[tokio::test]
async fn http2_is_not_spoken() {
    let served = Served::start(LIMITS, PATIENCE).await;
    let told = rest(&mut served.sent("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await).await;
    assert!(told.is_empty() || told.starts_with("HTTP/1.1 400"), "{told}");
}

/// Nobody accepts yet, as when hundreds call at the same moment.
#[tokio::test]
async fn hundreds_may_connect_at_once() {
    let listener = bind("listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let all = async {
        let mut open = Vec::new();
        for _ in 0..400 {
            open.push(TcpStream::connect(address).await.unwrap());
        }
        open
    };
    let open = timeout(PATIENCE, all).await.expect("a place for each of them");
    for _ in &open {
        timeout(PATIENCE, listener.accept()).await.expect("each is known here").unwrap();
    }
}
