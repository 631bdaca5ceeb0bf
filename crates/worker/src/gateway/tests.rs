//! The gateway client against servers that answer with raw bytes.

mod answers;
mod dead;
mod events;
mod hostile;
mod raw;
mod timing;
mod tls;

use std::net::SocketAddr;

use self::raw::{RawGateway, Reading, Step};
use super::*;
use holdfast_runtime::settings::SecretFile;

/// What an ordinary gateway answers.
const OK: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

fn target(addr: SocketAddr) -> Target {
    Target {
        base: format!("http://{addr}").parse().unwrap(),
        credentials: Credentials::default(),
        http: Http::One,
        streams: 100,
        connect_timeout: Duration::from_secs(5),
        stall_timeout: Duration::from_secs(5),
        attempt_timeout: Duration::from_secs(20),
        silence: SILENCE,
        answer_limit: 1024 * 1024,
    }
}

fn open(addr: SocketAddr) -> Gateway {
    Gateway::open(target(addr)).unwrap()
}

impl Gateway {
    fn call(&self, body: &[u8]) -> Call {
        let uri = self.at("/v1/chat/completions").unwrap();
        Call { uri, headers: HeaderMap::new(), body: Bytes::copy_from_slice(body) }
    }

    /// Sends `{}`.
    async fn ask(&self) -> Result<Reply, Fault> {
        self.send(self.call(b"{}"), Sent::default()).await
    }
}

/// The answer to a single call of a fresh client.
async fn answer_to(raw: impl AsRef<[u8]>) -> Result<Reply, Fault> {
    let server = RawGateway::answering(raw).await;
    open(server.addr).ask().await
}

fn whole(reply: Result<Reply, Fault>) -> Answer {
    match reply {
        Ok(Reply::Whole(answer)) => answer,
        other => panic!("no whole answer: {other:?}"),
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Vec<&'a [u8]> {
    answer.header(name).collect()
}

#[tokio::test]
async fn the_exact_bytes_are_sent_with_their_length_and_nothing_that_was_not_asked_for() {
    let server = RawGateway::answering(OK).await;
    let body = br#"{"seed": 9007199254740993, "t": 1.0, "x": -0.0, "s": "\ud83d", "a": []}"#;
    let gateway = open(server.addr);
    let mut call = gateway.call(body);
    call.headers.insert("x-request-id", HeaderValue::from_static("r-1"));
    call.headers.insert("authorization", HeaderValue::from_static("Bearer callers-own"));
    whole(gateway.send(call, Sent::default()).await);

    let log = server.saw("the request", |log| log.requests.len() == 1).await;
    let (head, sent) = &log.requests[0];
    assert_eq!(sent, body);
    let mut lines: Vec<_> = head.trim_end().lines().map(str::to_ascii_lowercase).collect();
    lines.sort();
    let expected = [
        format!("content-length: {}", body.len()),
        "content-type: application/json".into(),
        format!("host: {}", server.addr),
        "post /v1/chat/completions http/1.1".into(),
        format!("user-agent: holdfast/{}", env!("CARGO_PKG_VERSION")),
        "x-request-id: r-1".into(),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn the_credential_of_the_file_is_sent_and_an_empty_body_has_a_length() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "t0ken\n").unwrap();
    let server = RawGateway::answering(OK).await;
    let credentials =
        Credentials { credential_file: Some(SecretFile::new(file)), ..Credentials::default() };
    let gateway = Gateway::open(Target { credentials, ..target(server.addr) }).unwrap();
    let sent = Sent::default();
    whole(gateway.send(gateway.call(b""), sent.clone()).await);

    assert!(sent.get());
    let log = server.saw("the request", |log| log.requests.len() == 1).await;
    let head = log.requests[0].0.to_ascii_lowercase();
    assert!(head.contains("authorization: bearer t0ken\r\n"), "{head}");
    assert!(head.contains("content-length: 0\r\n"), "{head}");
}

#[tokio::test]
async fn a_path_is_put_behind_the_base_of_the_target() {
    let base = |base: &str| {
        let base = base.parse().unwrap();
        Gateway::open(Target { base, http: Http::Auto, ..target(([127, 0, 0, 1], 1).into()) })
            .unwrap()
    };
    for (prefix, path, expected) in [
        ("http://gw:8000", "/v1/x", "http://gw:8000/v1/x"),
        ("http://gw:8000/", "/v1/x", "http://gw:8000/v1/x"),
        ("http://gw/base/", "/v1/x?a=b", "http://gw/base/v1/x?a=b"),
    ] {
        assert_eq!(base(prefix).at(path).unwrap(), expected);
    }
    for path in ["/v1/a b", "", "v1/x", "@evil/x", ".evil/x", ":1/x", "http://evil/x", "/x#f"] {
        assert_eq!(base("http://gw").at(path), None, "{path}");
    }
}

#[tokio::test]
async fn calls_share_a_kept_connection() {
    let server = RawGateway::answering(OK).await;
    let gateway = open(server.addr);
    for _ in 0..3 {
        whole(gateway.ask().await);
    }
    assert_eq!(server.saw("three", |log| log.requests.len() == 3).await.connections, 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection_before_and_inside_the_answer() {
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin".to_vec();
    for start in [Vec::new(), begun] {
        let answers = vec![vec![Step::Send(start), Step::Hold]];
        let server = RawGateway::start(Reading::Fast, answers).await;
        let gateway = open(server.addr);
        tokio::select! {
            reply = gateway.ask() => panic!("{reply:?}"),
            _ = server.saw("the request", |log| log.requests.len() == 1) => {}
        }
        server.saw("the end of the connection", |log| log.left == 1).await;
    }
}

#[tokio::test]
async fn a_refused_connection_is_told_as_such_and_nothing_was_sent() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (gateway, sent) = (open(unused), Sent::default());
    let refused = gateway.send(gateway.call(b"{}"), sent.clone()).await;
    assert_eq!((refused, sent.get()), (Err(Fault::Connect), false));

    let base = "http://no-such-host.invalid".parse().unwrap();
    let gateway = Gateway::open(Target { base, ..target(unused) }).unwrap();
    assert_eq!(gateway.ask().await, Err(Fault::Connect));
}

#[tokio::test]
async fn http_2_without_tls_is_spoken_where_the_settings_say_so() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let echo = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async {
            assert_eq!(request.version(), hyper::Version::HTTP_2);
            Ok::<_, Infallible>(hyper::Response::new(request.into_body()))
        });
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(hyper_util::rt::TokioIo::new(stream), echo)
            .await
    });
    let gateway = Gateway::open(Target { http: Http::Two, ..target(addr) }).unwrap();
    let body = vec![7; 300_000];
    let answer = whole(gateway.send(gateway.call(&body), Sent::default()).await);
    assert_eq!((answer.status, answer.body), (200, Bytes::from(body)));
}
