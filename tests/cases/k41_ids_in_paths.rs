//! K41: ids with slashes, percent signs and dots, in a path.
//!
//! Decoded by one layer and not by the next, an id is found under another name, or its end is taken for a route.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::aftermath;
use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::stage::{self, Api};

/// Raw text of ids as JSON writes them: what a path gives a meaning of its own.
const NONE: [&str; 22] = [
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
    "%2e%2e",
    "a;b",
    "a\\\\b",
    "a&b",
    "\u{ff46}\u{ff55}\u{ff4c}\u{ff4c}",
];

/// What is an id all the same, and looks like an escape, a route, or a way up.
const IDS: [&str; 12] =
    ["a+b", "a-b", "...", "..a", "result", "cancel", "requests", "batch", "~", "@a", "a=b", "2F"];

/// Each byte as an escape.
fn escaped(id: &str) -> String {
    id.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Asks with this path just as it stands: the status, and the rest.
async fn ask(api: &Api, method: &str, path: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", api.port)).await.expect("a connection");
    let end = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let head = [method.as_bytes(), b" ", path, end].concat();
    stream.write_all(&head).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    let text = String::from_utf8(answer).expect("text");
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status = status.and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no answer: {text}")), text)
}

fn path(id: &str, rest: &str) -> String {
    format!("/v1/queues/q/requests/{id}{rest}")
}

/// Taken, an id is found on every route, written plainly or in escapes; what is no id is refused by one rule on all of them.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_found_under_its_own_name_or_refused_at_the_door() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let api = Api::start(&fleet).await;
    for id in NONE {
        let item = format!("{{\"id\":\"{id}\",\"payload\":{{}}}}");
        let answer = fleet.post(&item).await;
        let told = (answer.status, stage::problem_of(&answer));
        assert_eq!(told, (400, "invalid-id".to_owned()), "{id}");
        let id = id.replace("\\\\", "\\");
        for (method, rest) in [("GET", ""), ("GET", "/result"), ("DELETE", "")] {
            let (status, text) = ask(&api, method, path(&escaped(&id), rest).as_bytes()).await;
            assert_eq!(status, 400, "{method} {id}{rest}: {text}");
            assert!(text.contains("/problems/invalid-id"), "{id}: {text}");
        }
    }
    for id in IDS {
        fleet.submit(id, &stage::payload(id)).await;
    }
    let found = |text: &str, id: &str| text.contains(&format!("\"id\":\"{id}\""));
    for id in IDS {
        for written in [id.to_owned(), escaped(id)] {
            for rest in ["", "/result"] {
                let (status, text) = ask(&api, "GET", path(&written, rest).as_bytes()).await;
                let expected = if rest.is_empty() { 200 } else { 202 };
                assert!(status == expected && found(&text, id), "{written}{rest}: {text}");
            }
        }
    }
    for id in ["...", "cancel"] {
        let (status, text) = ask(&api, "DELETE", path(&escaped(id), "").as_bytes()).await;
        assert!(status == 200 && found(&text, id), "{id}: {text}");
    }
    let worker = fleet.worker();
    let ids = IDS.map(str::to_owned);
    let outcomes = aftermath::of(&fleet, &ids, &[&worker, &api.role]).await;
    for (id, outcome) in ids.iter().zip(outcomes) {
        let cancelled = matches!(id.as_str(), "..." | "cancel");
        assert_eq!(outcome, if cancelled { "cancelled" } else { "answered" }, "{id}");
        assert_eq!(fleet.arrivals_of(&stage::mark(id)).len(), usize::from(!cancelled), "{id}");
    }
}

/// No path makes the service fall over, or leads around a route.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_none_is_a_mistake_of_its_caller() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let api = Api::start(&fleet).await;
    fleet.submit("x", "{}").await;
    let odd: [&[u8]; 14] = [
        b"/v1/queues/q/requests/%FF",
        b"/v1/queues/q/requests/%C3%28",
        b"/v1/queues/q/requests/%",
        b"/v1/queues/q/requests/%4",
        b"/v1/queues/q/requests/%zz",
        b"/v1/queues/q/requests/%00",
        b"/v1/queues/q/requests/a/b",
        b"/v1/queues/q/requests/..%2fadmin",
        b"/v1/queues/q/requests/../../q/requests/x",
        b"/v1/queues/q/requests/x%2Fresult",
        b"/v1/queues/q/requests/x%2Fcancel",
        b"/v1/queues/q/requests/x/result/result",
        b"/v1/queues/q%2Frequests/x",
        b"/v1//queues/q/requests/x",
    ];
    for path in odd {
        for method in ["GET", "DELETE"] {
            let (status, text) = ask(&api, method, path).await;
            assert!(matches!(status, 400 | 404), "{method} {}: {text}", path.escape_ascii());
        }
    }
    // Found with a plus, and not with what a form would take for one.
    fleet.submit("a+b", "{}").await;
    assert_eq!(ask(&api, "GET", b"/v1/queues/q/requests/a+b").await.0, 200);
    assert_eq!(ask(&api, "GET", b"/v1/queues/q/requests/a%20b").await.0, 400);
    assert_eq!(fleet.status("x").await["state"], "pending", "none of it has touched another");
    aftermath::nobody_panicked(&fleet, &[&api.role]);
}
