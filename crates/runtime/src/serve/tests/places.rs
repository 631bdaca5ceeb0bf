//! Who gets a place where all are taken, and who leaves for it.

use super::*;

/// Soon, beside how long a connection may be idle here.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Two places, which nobody loses for being idle.
async fn two() -> Served {
    let limits = HttpLimits { max_connections: 2, idle_timeout: PATIENCE, ..LIMITS };
    Served::start(HttpLimits { body_timeout: PATIENCE, ..limits }, PATIENCE).await
}

/// What a newcomer is told within `AT_ONCE`.
async fn newcomer(served: &Served) -> String {
    let mut socket = served.sent(QUICK).await;
    let told = timeout(AT_ONCE, wait_for(&mut socket, "quick")).await;
    told.expect("a newcomer finds a place")
}

#[tokio::test]
async fn no_more_requests_run_than_there_may_be_connections_and_the_next_ones_wait() {
    let served = two().await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(served.sent(HELD).await);
        served.begun.notified().await;
    }
    let mut third = served.sent(QUICK).await;
    let early = timeout(2 * IDLE, third.read(&mut [0])).await;
    assert!(early.is_err(), "the third is served beside two others");
    served.release.notify_one();
    wait_for(&mut third, "quick").await;
    served.release.notify_one();
    for socket in &mut held {
        wait_for(socket, "held").await;
    }
}

#[tokio::test]
async fn who_says_nothing_leaves_for_who_comes_and_who_waited_least_stays() {
    let served = two().await;
    let mut first = served.connect().await;
    let mut half = served.sent("GET /quick HTTP/1.1\r\nx: ").await;
    newcomer(&served).await;
    assert_eq!(rest(&mut first).await, "");
    half.write_all(b"y\r\nhost: h\r\n\r\n").await.unwrap();
    wait_for(&mut half, "quick").await;
}

#[tokio::test]
async fn who_keeps_a_connection_leaves_only_where_none_is_free() {
    let served = two().await;
    let mut kept = served.sent(QUICK).await;
    wait_for(&mut kept, "quick").await;
    newcomer(&served).await;
    sleep(2 * IDLE).await;
    kept.write_all(QUICK.as_bytes()).await.unwrap();
    wait_for(&mut kept, "quick").await;
}

#[tokio::test]
async fn a_body_that_does_not_go_on_leaves_after_whoever_says_nothing() {
    const BODY: &str = "POST /body HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n1";
    let served = two().await;
    let mut sending = served.sent(BODY).await;
    sleep(IDLE).await;
    let mut silent = served.connect().await;
    newcomer(&served).await;
    assert_eq!(rest(&mut silent).await, "", "no request runs there, though it came later");
    sending.write_all(b"2").await.unwrap();
    assert!(wait_for(&mut sending, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    drop(sending);

    let mut sending = [served.sent(BODY).await, served.sent(BODY).await];
    newcomer(&served).await;
    let mut answered = 0;
    for socket in &mut sending {
        // One of them finds its connection closed, or is told so by a reset.
        let (mut piece, _) = ([0; 64], socket.write_all(b"2").await);
        let read = timeout(PATIENCE, socket.read(&mut piece)).await.expect("it ends");
        answered += usize::from(piece[..read.unwrap_or(0)].starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(answered, 1, "one of them left, and the other is served");
}
