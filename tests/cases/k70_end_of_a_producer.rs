//! K70: a producer that is told to end, with callers that don't leave.
//!
//! One kept connection, or one long wait, holds up a graceful end for ever.

use std::time::{Duration, Instant};

use holdfast_testkit::eventually;
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fleet::{SOON, Setup};
use crate::pace::beside_others;
use crate::stage::{self, Api};

/// A connection that has sent these bytes.
async fn having_sent(port: u16, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    stream.write_all(bytes.as_bytes()).await.expect("sent");
    stream
}

/// What comes until the other end closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    // A reset ends it as well.
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut read))
        .await
        .expect("it is closed");
    String::from_utf8(read).expect("text")
}

/// An idle connection, half a head, half a body, and a wait of five minutes: none of them holds it up.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_ends_soon_whoever_is_connected() {
    let _shared = beside_others().await;
    let producer = "body_timeout = \"3s\"".to_owned();
    let fleet = stage::fleet(Setup { producer, ..Setup::default() }).await;
    let mut api = Api::start(&fleet).await;
    fleet.submit("k70", "{}").await;

    let mut idle = having_sent(api.port, "GET /v1/queues HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    let mut half_head =
        having_sent(api.port, "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\nX-Slow: a").await;
    let head = "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n";
    let mut half_body = having_sent(api.port, &format!("{head}{{\"id\":\"half\"")).await;
    let looks =
        async || fleet.metric(&api.role, "holdfast_script_seconds_count", "script=\"read\"").await;
    let before = looks().await;
    let wait = "GET /v1/queues/q/requests/k70/result?wait=300 HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut waiting = having_sent(api.port, wait).await;
    // The wait has begun a moment after its look was answered.
    eventually(
        "it has looked",
        SOON,
        async || {
            if looks().await > before { Ok(()) } else { Err("not yet") }
        },
    )
    .await;
    crate::pace::pass(Duration::from_millis(300)).await;

    let asked = Instant::now();
    api.role.process.signal(Signal::SIGTERM);
    eventually("nobody new is let in", SOON, async || {
        match TcpStream::connect(("127.0.0.1", api.port)).await {
            Ok(_) => Err("a connection was taken"),
            Err(_) => Ok(()),
        }
    })
    .await;
    let told = rest(&mut waiting).await;
    assert!(
        told.starts_with("HTTP/1.1 202 ") && told.contains("retry-after: "),
        "the wait is answered: {told}"
    );
    assert!(asked.elapsed() < SOON, "the wait was answered after {:?}", asked.elapsed());
    // What is sent on an old connection is not begun any more.
    let late = idle
        .write_all(
            b"POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
        Content-Length: 26\r\n\r\n{\"id\":\"late\",\"payload\":{}}",
        )
        .await;
    let told = rest(&mut idle).await;
    assert!(late.is_err() || !told.contains("HTTP/1.1 202"), "{told}");
    assert!(!rest(&mut half_head).await.contains(" 202 "));
    assert!(!rest(&mut half_body).await.contains(" 202 "));
    let status = api.role.process.wait(Duration::from_secs(10)).await;
    assert!(status.success(), "{status}: {}", api.role.process.output());
    assert!(asked.elapsed() < Duration::from_secs(8), "it took {:?}", asked.elapsed());
    for id in ["late", "half"] {
        assert_eq!(fleet.result_now(id).await.status, 404, "{id} was taken");
    }
}

/// Its readiness goes before its listener does: whoever balances the load can see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_ends_says_so_while_it_drains() {
    let _shared = beside_others().await;
    let producer = "body_timeout = \"8s\"".to_owned();
    let fleet = stage::fleet(Setup { producer, ..Setup::default() }).await;
    let mut api = Api::start(&fleet).await;
    // Held open by half a body, so that there is something to drain.
    let head = "POST /v1/queues/q/requests HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{";
    let _held = having_sent(api.port, head).await;
    crate::pace::pass(Duration::from_millis(300)).await;
    api.role.process.signal(Signal::SIGTERM);
    eventually("it is draining", SOON, async || {
        let url = format!("http://127.0.0.1:{}/readyz", api.role.ops);
        let answer = fleet.http.try_request("GET", &url, &[], "").await?;
        if answer.status == 503 && answer.text().contains("draining") {
            Ok(())
        } else {
            Err(answer.text().to_owned())
        }
    })
    .await;
    let (status, _, _) = stage::probe(&fleet, api.role.ops, "livez").await;
    assert_eq!(status, 200, "a process that drains is alive");
    assert!(api.role.process.wait(SOON).await.success());
}
