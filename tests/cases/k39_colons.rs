//! K39: ids with colons.
//!
//! Where a key is glued together from names with colons between them, one request's id is another one's key.

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::{aftermath, stage};

/// What looks like a part of a key, and what lies next to it.
const IDS: [&str; 12] = [
    "a:b",
    "a:b:c",
    "a:b:c:d",
    ":a",
    "a:",
    "::",
    "q:x",
    "result:x",
    "lock:x",
    "x:claims",
    "hf1:q",
    "q/0:request",
];

/// Each of them is a request of its own, from submit to result; what is no id is refused everywhere by one rule.
#[tokio::test(flavor = "multi_thread")]
async fn ids_with_colons_never_meet() {
    let _shared = beside_others().await;
    // A second queue, whose name ends where another's id could begin.
    let more = "[queues.x]\ntarget = \"http://127.0.0.1:9\"".to_owned();
    let fleet = stage::fleet(Setup { more, ..Setup::default() }).await;
    let mut taken = Vec::new();
    for id in IDS {
        let item =
            format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload(id));
        let answer = fleet.post(&item).await;
        if id.contains('/') {
            assert_eq!(
                (answer.status, stage::problem_of(&answer).as_str()),
                (400, "invalid-id"),
                "{id}"
            );
        } else {
            assert_eq!(answer.status, 202, "{id}: {}", answer.text());
            taken.push(id.to_owned());
        }
    }
    let elsewhere =
        fleet.call("POST", "/v1/queues/x/requests", b"{\"id\":\"y:z\",\"payload\":1}").await;
    assert_eq!(elsewhere.status, 202);
    for path in ["/v1/queues/x:y/requests/z", "/v1/queues/q:a/requests/b"] {
        let answer = fleet.call("GET", path, b"").await;
        assert_eq!(
            (answer.status, stage::problem_of(&answer).as_str()),
            (400, "invalid-name"),
            "{path}"
        );
    }
    for id in &taken {
        assert_eq!(fleet.status(id).await["id"], **id);
    }
    // One is cancelled, and none of the others is touched.
    let gone = fleet.call("DELETE", "/v1/queues/q/requests/a:b", b"").await;
    assert_eq!(gone.status, 200);
    let worker = fleet.worker();
    let outcomes = aftermath::of(&fleet, &taken, &[&worker]).await;
    for (id, outcome) in taken.iter().zip(outcomes) {
        assert_eq!(outcome, if id == "a:b" { "cancelled" } else { "answered" }, "{id}");
        assert_eq!(fleet.arrivals_of(&stage::mark(id)).len(), usize::from(id != "a:b"), "{id}");
    }
}
