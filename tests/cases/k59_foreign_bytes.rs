//! K59: answers that are no UTF-8, or compressed, or not what they say they are.
//!
//! A body that is handled as text loses its bytes; a wrong word about its encoding makes an error of an answer, or an
//! answer of a wreck.

use serde_json::Value;

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

/// `{"a":1}` and a line end, packed by gzip.
const PACKED: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x4a, 0x54, 0xb2, 0x32,
    0xac, 0xe5, 0x02, 0x00, 0x46, 0xa3, 0xe8, 0x74, 0x08, 0x00, 0x00, 0x00,
];

fn answer(kind: &str, encoding: Option<&str>, body: &[u8]) -> Vec<u8> {
    // One line each.
    let encoding: String = encoding
        .into_iter()
        .flat_map(|it| it.split(", "))
        .map(|it| format!("Content-Encoding: {it}\r\n"))
        .collect();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{encoding}Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Bytes in, bytes out, with their type and their encoding.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_back_with_the_bytes_it_had() {
    let _shared = beside_others().await;
    let latin = b"{\"content\":\"caf\xe9 \x00\xff end\"}".to_vec();
    let wide: Vec<u8> = "\u{feff}{\"id\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases = [
        ("latin-1", "application/json; charset=iso-8859-1", None, latin),
        ("utf-16", "application/json; charset=utf-16", None, wide),
        ("packed", "application/json", Some("gzip"), PACKED.to_vec()),
        ("packed-twice", "application/json", Some("br, gzip"), b"\x00\xff".to_vec()),
        // Nothing that could be packed.
        ("nothing", "application/json", Some("gzip"), Vec::new()),
    ];
    let answers = cases
        .clone()
        .map(|(name, kind, encoding, body)| (name, Answer::raw(answer(kind, encoding, &body))));
    let (fleet, gateway, ids) = stage::answering(Setup::default(), answers).await;
    let worker = fleet.worker();
    for (id, kind, encoding, body) in cases {
        let (outcome, result) = fleet.result(id).await;
        assert_eq!((outcome.as_str(), &result.body[..]), ("answered", &body[..]), "{id}");
        assert_eq!(result.header("content-type"), Some(kind), "{id}");
        assert_eq!(result.header("content-encoding"), encoding, "{id}");
        assert_eq!(gateway.arrivals_of(&stage::mark(id)).len(), 1, "{id}");
    }
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// What can't be unpacked is no answer: tried again, and in the end told by its code.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_lies_about_itself_is_a_failure_with_a_code() {
    let _shared = beside_others().await;
    let gzip = |body: &[u8]| Answer::raw(answer("application/json", Some("gzip"), body));
    let short = answer("application/json", None, b"{\"whole\":true}");
    let length = short.len() - 4;
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n";
    let cases = [
        ("not-packed", gzip(b"{\"not\":\"packed\"}"), "lying-body"),
        ("cut-packed", gzip(&PACKED[..PACKED.len() - 9]), "cut-body"),
        ("cut", Answer::raw(short).cut(length), "cut-body"),
        ("bad-chunks", Answer::raw(chunked.as_slice()), "lying-body"),
    ];
    let answers = cases.clone().map(|(name, answer, _)| (name, answer));
    let setup = Setup { queue: "max_attempts = 2".to_owned(), ..Setup::default() };
    let (fleet, gateway, ids) = stage::answering(setup, answers).await;
    let worker = fleet.worker();
    for (id, _, code) in cases {
        let (outcome, result) = fleet.result(id).await;
        assert_eq!(outcome, "gave-up", "{id}");
        let problem: Value = serde_json::from_slice(&result.body).expect("a problem");
        assert_eq!(problem["last_failure"]["code"], code, "{id}: {problem}");
        assert_eq!(gateway.arrivals_of(&stage::mark(id)).len(), 2, "{id}: two attempts");
    }
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
