//! Three time-outs, each for its own thing.

use tokio::time::Instant;

use super::*;

/// A stall time-out that is short, but long for the pauses of these servers.
const STALL: Duration = Duration::from_millis(400);

fn short(addr: SocketAddr) -> Gateway {
    Gateway::open(Target { stall_timeout: STALL, ..target(addr) }).unwrap()
}

#[tokio::test]
async fn an_answer_that_stops_half_way_stalls_in_its_head_and_in_its_body() {
    for start in
        ["HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234"]
    {
        let steps = vec![Step::Send(start.into()), Step::Hold];
        let server = RawGateway::start(Reading::Fast, vec![steps]).await;
        let started = Instant::now();
        assert_eq!(short(server.addr).ask().await, Err(Fault::Stall), "{start:?}");
        assert!(started.elapsed() >= STALL);
        server.saw("the end of the connection", |log| log.left == 1).await;
    }
}

#[tokio::test]
async fn an_answer_that_flows_slowly_does_not_stall() {
    let trickle = Step::Trickle(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789".to_vec(),
        Duration::from_millis(25),
    );
    let server = RawGateway::start(Reading::Fast, vec![vec![trickle]]).await;
    let started = Instant::now();
    assert_eq!(&whole(short(server.addr).ask().await).body[..], b"0123456789");
    assert!(started.elapsed() > 2 * STALL, "it took longer than the stall time-out");
}

#[tokio::test]
async fn thinking_before_the_first_byte_is_no_stall_also_on_a_kept_connection() {
    let steps = vec![Step::Pause(2 * STALL), Step::Send(OK.to_vec())];
    let server = RawGateway::start(Reading::Fast, vec![steps]).await;
    let gateway = short(server.addr);
    whole(gateway.ask().await);
    whole(gateway.ask().await);
    assert_eq!(server.saw("both", |log| log.requests.len() == 2).await.connections, 1);
}

#[tokio::test]
async fn a_slow_upload_is_no_stall() {
    let answers = vec![vec![Step::Send(OK.to_vec())]];
    let server = RawGateway::start(Reading::Slow, answers).await;
    let gateway = short(server.addr);
    let started = Instant::now();
    let body = vec![b' '; 10 * 1024 * 1024];
    whole(gateway.send(gateway.call(&body), Sent::default()).await);
    assert!(started.elapsed() > STALL, "it took longer than the stall time-out");
    assert_eq!(server.saw("it", |log| log.requests.len() == 1).await.requests[0].1, body);
}

#[tokio::test]
async fn an_attempt_ends_at_its_time_out_however_well_the_answer_flows() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec();
    let trickle = Step::Trickle(vec![b'x'; 100_000], Duration::from_millis(20));
    let server = RawGateway::start(Reading::Fast, vec![vec![Step::Send(head), trickle]]).await;
    let attempt_timeout = Duration::from_millis(600);
    let gateway = Gateway::open(Target { attempt_timeout, ..target(server.addr) }).unwrap();
    assert_eq!(gateway.ask().await, Err(Fault::AttemptTimeout));
}

#[tokio::test]
async fn an_attempt_in_which_no_answer_begins_is_told_apart() {
    let server = RawGateway::start(Reading::Fast, vec![vec![Step::Pause(10 * STALL)]]).await;
    let attempt_timeout = Duration::from_millis(300);
    let gateway = Gateway::open(Target { attempt_timeout, ..target(server.addr) }).unwrap();
    assert_eq!(gateway.ask().await, Err(Fault::Unanswered));
}

#[tokio::test]
async fn a_connection_that_does_not_stand_within_the_attempt_is_told_as_such_and_nothing_was_sent()
{
    // A place in the queue of this one is taken, and there is no other: what comes next is dropped.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(0).unwrap();
    let addr = listener.local_addr().unwrap();
    let _waits = tokio::net::TcpStream::connect(addr).await.unwrap();
    let attempt_timeout = Duration::from_millis(300);
    let gateway = Gateway::open(Target { attempt_timeout, ..target(addr) }).unwrap();
    let sent = Sent::default();
    let late = gateway.send(gateway.call(b"{}"), sent.clone()).await;
    assert_eq!((late, sent.get()), (Err(Fault::ConnectTimeout), false));
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closes_costs_a_retry_at_most() {
    let answers = vec![vec![Step::Send(OK.to_vec()), Step::Close]];
    let server = RawGateway::start(Reading::Fast, answers).await;
    let gateway = open(server.addr);
    let mut answered = 0;
    for _ in 0..200 {
        match gateway.ask().await {
            Ok(Reply::Whole(_)) => answered += 1,
            other => assert_eq!(other, Err(Fault::Reset)),
        }
    }
    assert!(answered >= 100, "a retry is the exception: {answered} of 200 were answered");
}

#[tokio::test]
async fn what_is_said_before_an_answer_is_not_its_beginning() {
    let mut several = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n".to_vec();
    several.extend(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
    for interim in [&b"HTTP/1.1 102 Processing\r\n\r\n"[..], b"HTTP/1.1 100 Continue\n\n", &several]
    {
        let trickle = Step::Trickle(interim.to_vec(), Duration::from_millis(1));
        for said in [Step::Send(interim.to_vec()), trickle] {
            let steps = vec![said, Step::Pause(2 * STALL), Step::Send(OK.to_vec())];
            let server = RawGateway::start(Reading::Fast, vec![steps]).await;
            let gateway = short(server.addr);
            for _ in 0..2 {
                whole(gateway.ask().await);
            }
            let log = server.saw("both", |log| log.requests.len() == 2).await;
            assert_eq!(log.connections, 1);
        }
    }
}

#[tokio::test]
async fn an_answer_that_stops_behind_what_was_said_before_it_stalls() {
    for start in [
        "HTTP/1.1 102 Processing\r\n\r\nH",
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 102 Processing\r\nLink: x\r\n",
        "HTTP/1.1 1",
    ] {
        let steps = vec![Step::Send(start.into()), Step::Hold];
        let server = RawGateway::start(Reading::Fast, vec![steps]).await;
        assert_eq!(short(server.addr).ask().await, Err(Fault::Stall), "{start:?}");
    }
}

/// A call that its server does not take yet waits here, behind those that it has.
#[tokio::test]
async fn a_call_that_a_standing_connection_does_not_take_is_not_answered_and_lacks_no_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let first = AtomicBool::new(true);
        let first_only = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| {
            let is_first = first.swap(false, Ordering::Relaxed);
            async move {
                if !is_first {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(hyper::Response::new(request.into_body()))
            }
        });
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(1)
            .serve_connection(hyper_util::rt::TokioIo::new(stream), first_only)
            .await
    });
    let attempt_timeout = Duration::from_secs(2);
    let target = Target { http: Http::Two, attempt_timeout, ..target(addr) };
    let gateway = Gateway::open(target).unwrap();
    // From here on the client knows how many calls are taken.
    whole(gateway.ask().await);
    // The first is taken, the next one waits for its stream, and what comes behind them for its turn.
    let held = || async {
        let (client, _lane) = gateway.lanes.take();
        client.request(gateway.request(gateway.call(b"{}"), Sent::default())).await
    };
    let sent = Sent::default();
    tokio::select! {
        biased;
        end = held() => panic!("{end:?}"),
        end = held() => panic!("{end:?}"),
        late = gateway.send(gateway.call(b"{}"), sent.clone()) => {
            assert_eq!((late, sent.get()), (Err(Fault::Unanswered), false));
        }
    }
}
