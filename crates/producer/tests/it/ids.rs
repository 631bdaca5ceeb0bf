//! Ids and names on every route: taken everywhere, or refused everywhere by one rule.

use holdfast_testkit::RedisServer;
use serde_json::Value;

use crate::support::{Producer, json, problem};

const TAKEN: &[&str] = &[
    "a:b", "a:b:c", "a:b:c:d", ":a", "a:", "::", "queue1:x", "result:x", "lock:x", "x:claims",
    "a+b", "result", "cancel", "requests", "...", "~", "@", "=",
];

const REFUSED: &[&str] = &[
    "",
    "a/b",
    "a%2Fb",
    "a%252Fb",
    "../x",
    ".",
    "..",
    "a b",
    "x/result",
    "x/cancel",
    "x?wait=1",
    "x#y",
    "\u{e9}",
    "e\u{301}",
    "\u{65e5}\u{672c}",
    "\u{1f600}",
    "%FF",
    "%",
    "a;b",
    "a\\b",
    "\u{ff46}\u{ff55}\u{ff4c}\u{ff4c}",
    "a\nINFO forged line",
    "a\r\nX-Evil: 1",
    "tab\there",
    "nul\0byte",
    "bell\u{7}",
    "\u{202e}abc",
    "zero\u{200b}width",
    "\u{feff}bom",
    "\u{2028}ls",
    "\u{85}nel",
    "del\u{7f}",
    " lead",
    "trail ",
];

/// Every byte that is no letter or digit, percent-encoded.
fn encoded(id: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    id.bytes().map(byte).collect()
}

#[tokio::test]
async fn an_id_that_is_taken_is_found_on_every_route() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    let longest = "x".repeat(200);
    for id in TAKEN.iter().copied().chain([longest.as_str()]) {
        let submitted = producer.submit(&format!(r#"{{"id":"{id}","payload":1}}"#)).await;
        assert_eq!(submitted.status, 202, "{id}: {}", submitted.text());
        let location = format!("/v1/queues/q/requests/{id}");
        assert_eq!(submitted.header("location"), Some(location.as_str()));
        let generation = &json(&submitted)["generation"];
        for path in [id.to_owned(), encoded(id)] {
            let status = producer.call("GET", &path).await;
            assert_eq!((status.status, &json(&status)["id"]), (200, &id.into()), "{path}");
            assert_eq!(&json(&status)["generation"], generation);
            assert_eq!(producer.call("GET", &format!("{path}/result")).await.status, 202, "{path}");
        }
        assert_eq!(producer.call("DELETE", &encoded(id)).await.status, 200, "{id}");
    }
}

#[tokio::test]
async fn an_id_that_is_refused_is_refused_on_every_route_by_the_same_rule() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    for length in [201, 255, 256, 257, 65_536] {
        let body = format!(r#"{{"id":"{}","payload":1}}"#, "x".repeat(length));
        assert_eq!(problem(&producer.submit(&body).await), "invalid-id", "{length} bytes");
    }
    for id in REFUSED {
        let body = format!(r#"{{"id":{},"payload":1}}"#, Value::from(*id));
        let submitted = producer.submit(&body).await;
        assert_eq!((submitted.status, problem(&submitted).as_str()), (400, "invalid-id"), "{id:?}");
        if id.is_empty() {
            continue;
        }
        for (method, end) in [("GET", ""), ("GET", "/result"), ("DELETE", "")] {
            let answer = producer.call(method, &format!("{}{end}", encoded(id))).await;
            assert_eq!((answer.status, problem(&answer).as_str()), (400, "invalid-id"), "{id:?}");
        }
    }
    let half = producer.submit(r#"{"id":"\ud83d","payload":1}"#).await;
    assert_eq!((half.status, problem(&half).as_str()), (400, "invalid-id"));
    assert_eq!(redis.command(&["EXISTS", "hf1:{q/0}:ticket"]).await.int(), Some(0));
}

#[tokio::test]
async fn a_path_is_decoded_once_and_leads_nowhere_else() {
    let redis = RedisServer::start().await;
    let producer = Producer::on(&redis).await;
    for (path, status, name) in [
        ("%FF", 400, "invalid-id"),
        ("%FF/result", 400, "invalid-id"),
        ("a/b", 404, "not-found"),
        ("..%2fadmin", 400, "invalid-id"),
        ("x%2Fcancel", 400, "invalid-id"),
        ("x%252Fresult", 400, "invalid-id"),
        ("x/cancel", 404, "not-found"),
        ("x/", 404, "not-found"),
        ("", 404, "not-found"),
    ] {
        let answer = producer.call("GET", path).await;
        assert_eq!((answer.status, problem(&answer).as_str()), (status, name), "{path}");
    }
    for (queue, status, name) in
        [("Q", 400, "invalid-name"), ("%FF", 400, "invalid-id"), ("other", 404, "unknown-queue")]
    {
        for rest in ["", "/requests/x", "/requests/x/result"] {
            let url = format!("{}/v1/queues/{queue}{rest}", producer.base);
            let answer = producer.http.request("GET", &url, &[], "").await;
            assert_eq!((answer.status, problem(&answer).as_str()), (status, name), "{queue}{rest}");
            if name == "unknown-queue" {
                let told = json(&answer);
                assert_eq!(told["queue"], queue);
                let detail = told["detail"].as_str().unwrap();
                assert!(
                    detail.contains("no queue other") && detail.contains("there is q "),
                    "{detail}"
                );
            }
        }
    }
}
