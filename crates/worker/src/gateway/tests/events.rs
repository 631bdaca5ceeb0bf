//! A stream of events that has said that it is done is whole, however its connection ends.

use tokio::time::Instant;

use super::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
    Transfer-Encoding: chunked\r\n\r\n";

const EVENTS: &str = "data: {\"delta\":\"he\"}\n\nda";

const DONE: &str = "ta: [DONE]\n\n";

fn chunk(bytes: &str) -> String {
    format!("{:x}\r\n{bytes}\r\n", bytes.len())
}

/// The stream as it stands once `last` has come behind its first event, which it cuts.
fn stream(last: &str) -> Vec<u8> {
    [HEAD, &chunk(EVENTS), &chunk(last)].concat().into_bytes()
}

/// The stall time-out is not what such an answer waits for.
async fn asked(steps: Vec<Step>) -> (Result<Reply, Fault>, RawGateway) {
    let server = RawGateway::start(Reading::Fast, vec![steps]).await;
    let gateway = Gateway::open(Target {
        stall_timeout: Duration::from_secs(30),
        attempt_timeout: Duration::from_secs(40),
        ..target(server.addr)
    })
    .unwrap();
    let started = Instant::now();
    let reply = gateway.ask().await;
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    (reply, server)
}

#[tokio::test]
async fn a_stream_that_is_done_and_then_held_open_is_whole() {
    for done in
        [DONE, "ta:[DONE]\n\n", "ta: [DONE]\r\n\r\n", "ta: [DONE]\r\r", "ta: [DONE]\n\n: ok\n\n"]
    {
        let (reply, server) = asked(vec![Step::Send(stream(done)), Step::Hold]).await;
        assert_eq!(&whole(reply).body[..], [EVENTS, done].concat().as_bytes(), "{done:?}");
        let log = server.saw("the end of the connection", |log| log.left == 1).await;
        assert_eq!(log.requests.len(), 1);
    }
}

#[tokio::test]
async fn a_stream_that_is_done_and_then_cut_is_whole() {
    for end in [Step::Close, Step::Reset] {
        // What came before a reset is lost to whoever has not read it yet.
        let steps = vec![Step::Send(stream(DONE)), Step::Pause(Duration::from_millis(200)), end];
        let (reply, _) = asked(steps).await;
        assert_eq!(&whole(reply).body[..], [EVENTS, DONE].concat().as_bytes());
    }
}

#[tokio::test]
async fn a_stream_that_is_done_and_then_pinged_for_ever_is_whole() {
    let mut steps = vec![Step::Send(stream(DONE))];
    for _ in 0..200 {
        let ping = chunk(": ping\n\n").into_bytes();
        steps.extend([Step::Send(ping), Step::Pause(Duration::from_millis(100))]);
    }
    let (reply, _) = asked(steps).await;
    let body = whole(reply).body;
    assert!(body.starts_with([EVENTS, DONE].concat().as_bytes()), "{body:?}");
}

#[tokio::test]
async fn what_comes_soon_after_it_is_kept_and_the_connection_with_it() {
    let rest = [&chunk(": bye\n\n"), "0\r\n\r\n"].concat().into_bytes();
    let pause = Step::Pause(Duration::from_millis(100));
    let steps = vec![Step::Send(stream(DONE)), pause, Step::Send(rest)];
    let server = RawGateway::start(Reading::Fast, vec![steps]).await;
    let gateway = open(server.addr);
    for _ in 0..2 {
        let body = whole(gateway.ask().await).body;
        assert_eq!(&body[..], [EVENTS, DONE, ": bye\n\n"].concat().as_bytes());
    }
    assert_eq!(server.saw("two", |log| log.requests.len() == 2).await.connections, 1);
}

#[tokio::test]
async fn a_stream_that_has_not_said_so_and_what_is_no_stream_are_cut() {
    for last in [
        "ta: [DONE]\n",
        "ta: [DONE]\r\n",
        "ta: x[DONE]\n\n",
        "ta: [DONE] \n\n",
        "ta: a\ndata: [DONE]\n\n",
        "ta: {\"x\": \"data: [DONE]\n\n",
    ] {
        let steps = vec![Step::Send(stream(last)), Step::Close];
        assert_eq!(asked(steps).await.0, Err(Fault::CutBody), "{last:?}");
    }
    let whole = String::from_utf8(stream(DONE)).unwrap();
    let json = whole.replace("text/event-stream", "application/json");
    let zipped = whole.replace("Content-Type", "Content-Encoding: gzip\r\nContent-Type");
    let refused = whole.replace("200 OK", "400 Bad Request");
    for no_stream in [json, zipped, refused] {
        let steps = vec![Step::Send(no_stream.into()), Step::Close];
        assert_eq!(asked(steps).await.0, Err(Fault::CutBody));
    }
}

/// Each look at a word went back to the beginning of its line.
#[tokio::test]
async fn a_line_full_of_the_word_is_looked_through_in_no_time() {
    let line = ["data: ", &"data: [DONE]".repeat(80_000)].concat();
    let body = [HEAD, &chunk(&line)].concat().into_bytes();
    assert_eq!(asked(vec![Step::Send(body), Step::Close]).await.0, Err(Fault::CutBody));
}
