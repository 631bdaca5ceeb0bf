//! K104: markup in what callers and gateways say.
//!
//! A page that shows one name unescaped runs its author's script in the operator's browser. There is no page yet: what
//! a browser could be made to show are answers, problems, lists and metrics.

use holdfast_testkit::http::Answer;

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::raw_gateway;
use crate::stage::{self, holdfastctl};

const MARKUP: &str = "\\\"><script>alert(1)</script>";

/// A browser takes it for no page of ours.
#[track_caller]
fn is_inert(answer: &Answer, what: &str) {
    let kind = answer.header("content-type").expect("a content type");
    let is_data = kind.starts_with("application/json")
        || kind.starts_with("application/problem+json")
        || kind.starts_with("text/plain");
    assert!(is_data, "{what}: {kind}");
}

/// Refused where it is a name, kept as it is where it is data, and never served as a page.
#[tokio::test(flavor = "multi_thread")]
async fn markup_is_never_served_as_a_page_of_ours() {
    let _shared = beside_others().await;
    let page = "<script>alert(document.cookie)</script>";
    let head = ["content-type: text/html", "x-dropped-reason: <img src=x onerror=alert(1)>"];
    let setup = Setup { queue: "max_attempts = 1".to_owned(), ..Setup::default() };
    let (fleet, _gateway) =
        stage::raw(setup, move |_| raw_gateway::Answer::with(500, &head, page)).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;

    let named = format!("{{\"id\":\"{MARKUP}\",\"payload\":{{}}}}");
    let refused = fleet.post(&named).await;
    assert_eq!((refused.status, stage::problem_of(&refused).as_str()), (400, "invalid-id"));
    let payload =
        "{\"model\":\"<img src=x onerror=alert(1)>\",\"content\":\"</pre><svg onload=alert(1)>\"}";
    fleet.submit("k104", payload).await;
    let (outcome, result) = fleet.result("k104").await;
    // The gateway's page is handed on byte for byte, and a browser that meets it runs nothing.
    assert_eq!((outcome.as_str(), result.text()), ("answered", page));
    assert_eq!(result.header("content-security-policy"), Some("sandbox"));
    assert_eq!(result.header("x-content-type-options"), Some("nosniff"));

    let operators = format!("{}/v1/ops", fleet.operators().await);
    let paths = ["queues", "queues/q", "queues/q/why/k104", "leases", "workers", "queues/q/dead"];
    for path in paths {
        let answer = fleet.http.request("GET", &format!("{operators}/{path}"), &[], "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        is_inert(&answer, path);
    }
    for path in [
        "queues/%3Cscript%3E",
        "queues/q/why/k104?tenant=%3Cscript%3E",
        "queues/q/dead?cursor=%3Cscript%3E",
        "%3Cscript%3E",
    ] {
        let answer = fleet.http.request("GET", &format!("{operators}/{path}"), &[], "").await;
        assert!(answer.status >= 400, "{path}");
        is_inert(&answer, path);
        assert!(!answer.text().contains("script"), "{path}: {}", answer.text());
    }
    // No link and no form of a foreign page does anything: actions are no GET, and must say that they are JSON.
    for (method, kind) in [("GET", None), ("POST", None), ("POST", Some("text/plain"))] {
        let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
        let url = format!("{operators}/queues/q/pause");
        let answer = fleet.http.request(method, &url, &headers, "{}").await;
        assert!(matches!(answer.status, 405 | 415), "{method} {kind:?}: {}", answer.status);
    }
    let shown = holdfastctl(&fleet, &["queue", "ls"]).await;
    assert_eq!(shown[0]["paused"], false, "nobody paused it");
    for path in ["metrics", "readyz", "livez"] {
        let url = format!("http://127.0.0.1:{}/{path}", worker.ops);
        let answer = fleet.http.request("GET", &url, &[], "").await;
        is_inert(&answer, path);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}
