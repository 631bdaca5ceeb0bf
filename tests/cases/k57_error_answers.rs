//! K57: what a gateway refuses is told as it was said.
//!
//! An error that is turned into our own too early loses its status and its text, and nobody can tell a refusal from a
//! broken line.

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

/// Status, content type, id and body as they came, also of what is odd or empty, and how often it was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_keeps_its_status_its_type_and_its_bytes() {
    let _shared = beside_others().await;
    let html = "<html><body><h1>oops</h1></body></html>";
    let cases: [(&str, &str, &str, Option<&str>, usize); 4] = [
        (
            "422",
            "Unprocessable Entity",
            "{\"error\":{\"param\":\"temperature\"}}",
            Some("application/json"),
            1,
        ),
        ("500", "Internal Server Error", html, Some("text/html"), 2),
        ("418", "I'm a teapot", "", None, 1),
        ("599", "Odd", "{\"e\":1}", Some("application/json"), 2),
    ];
    let answers = cases.map(|(status, reason, body, kind, _)| {
        let kind = kind.map_or_else(String::new, |kind| format!("Content-Type: {kind}\r\n"));
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} {reason}\r\n{kind}x-request-id: up-{status}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        (status, Answer::raw(answer))
    });
    let setup = Setup { queue: "max_attempts = 2".to_owned(), ..Setup::default() };
    let (fleet, gateway, ids) = stage::answering(setup, answers).await;
    let worker = fleet.worker();
    for (status, _, body, kind, arrivals) in cases {
        let (outcome, result) = fleet.result(status).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", body), "{status}");
        assert_eq!(result.header("holdfast-status"), Some(status));
        assert_eq!(result.header("content-type"), kind);
        let theirs = format!("up-{status}");
        assert_eq!(result.header("holdfast-gateway-x-request-id"), Some(theirs.as_str()));
        assert_ne!(result.header("x-request-id"), Some(theirs.as_str()), "that one is ours");
        assert_eq!(gateway.arrivals_of(&stage::mark(status)).len(), arrivals, "{status}");
    }
    aftermath::of(&fleet, &ids, &[&worker]).await;
}

/// Nobody listens: that is a code of its own, and no status.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_line_is_told_apart_from_a_refusal() {
    let _shared = beside_others().await;
    let setup = Setup { queue: "max_attempts = 2".to_owned(), ..Setup::default() };
    let mut fleet = stage::fleet(setup).await;
    fleet.gateway.stop().await;
    let (worker, ids) = (fleet.worker(), stage::ids("k57", 1));
    stage::submit_all(&fleet, &ids).await;
    let (outcome, result) = fleet.result("k57-1").await;
    assert_eq!((outcome.as_str(), result.header("holdfast-status")), ("gave-up", None));
    let problem: serde_json::Value = serde_json::from_slice(&result.body).expect("a problem");
    assert_eq!(problem["last_failure"]["code"], "connect", "{problem}");
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
