//! K42: ids and headers that could break a log line or a header.
//!
//! A client's text that is put into a header unchecked stops the service; a line end in it forges a line of the log.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::aftermath;
use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::stage::{self, Api};

/// Raw text of ids as JSON writes them.
const IDS: [&str; 12] = [
    "",
    "a\\u0000b",
    "a\\r\\nX-Evil: 1",
    "a\\nb",
    "\\u001b[31mred",
    "a\\u007fb",
    "\\u202eabc",
    "caf\u{e9}",
    "a b",
    "a\\tb",
    "\\ud83d\\ude00",
    "{\\\"level\\\":\\\"ERROR\\\"}",
];

/// Sends these bytes as they are, and reads all that comes back.
async fn send(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    stream.write_all(bytes).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8(answer).expect("text")
}

/// Refused by one rule, told back nowhere; logs stay one event a line.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_forge_a_line_is_refused_and_repeated_nowhere() {
    let _shared = beside_others().await;
    let more = "[log]\nfilter = \"debug\"".to_owned();
    let fleet = stage::fleet(Setup { more, ..Setup::default() }).await;
    let mut api = Api::start(&fleet).await;
    let ids = IDS.iter().map(|id| (*id).to_owned()).chain(["x".repeat(201), "x".repeat(65_000)]);
    for id in ids {
        let item = format!("{{\"id\":\"{id}\",\"payload\":{{}}}}");
        let answer =
            api.call(&fleet, "POST", "/v1/queues/q/requests", &item).await.expect("an answer");
        assert_eq!(
            (answer.status, stage::problem_of(&answer).as_str()),
            (400, "invalid-id"),
            "{id:.40}"
        );
        assert!(answer.text().contains("1 to 200 bytes"), "the rule is told: {}", answer.text());
    }
    let longest = format!("{{\"id\":\"{}\",\"payload\":{{}}}}", "x".repeat(200));
    let answer =
        api.call(&fleet, "POST", "/v1/queues/q/requests", &longest).await.expect("an answer");
    assert_eq!(answer.status, 202);
    for value in [b"caf\xc3\xa9-\xe2\x84\xa2".as_slice(), b"raw-\xff\xfe", b"a\tb"] {
        let head = b"GET /v1/queues HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: ";
        let answer = send(api.port, &[head, value, b"\r\n\r\n"].concat()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let own = answer
            .lines()
            .find_map(|line| line.strip_prefix("x-request-id: "))
            .expect("a request id");
        assert!(
            own.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "replaced: {own}"
        );
    }
    fleet.ready(api.role.ops).await;
    assert!(api.role.process.terminate().await.success());
    for line in api.role.process.output().lines() {
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no event: {line}"));
        assert!(event["level"].is_string() && event["message"].is_string(), "{line}");
        assert!(!line.contains("X-Evil") && !line.contains("[31m"), "{line}");
    }
    aftermath::nobody_panicked(&fleet, &[&api.role]);
}
