//! K53: bodies that are nearly requests.
//!
//! A number that is none, nothing at all, the wrong kind, something behind the end: one layer lets it pass, the next
//! breaks on it.

use holdfast_testkit::http::Answer;

use crate::fleet::{Fleet, Setup};
use crate::pace::beside_others;
use crate::{aftermath, stage};

/// Whole bodies, and a word of what their sender must be told.
const REFUSED: [(&str, &str); 19] = [
    ("", "empty"),
    (" ", "line 1"),
    (r#"{"id":"nan","payload":{"model":"m","temperature":NaN}}"#, "line 1"),
    (r#"{"id":"inf","payload":{"model":"m","temperature":-Infinity}}"#, "line 1"),
    (r#"{"id":"plus","payload":{"model":"m","temperature":+1}}"#, "line 1"),
    (r#"{"id":"none"}"#, "payload"),
    (r#"{"id":"null","payload":null}"#, "payload"),
    ("[]", "object"),
    ("null", "object"),
    ("\"x\"", "object"),
    ("1", "object"),
    (r#"{"id":"trail","payload":{}} trailing"#, "line 1"),
    (r#"{"id":"two","payload":{}}{"id":"three","payload":{}}"#, "line 1"),
    (r#"{"id":"comma","payload":{},}"#, "line 1"),
    (r#"{'id':'single','payload':{}}"#, "line 1"),
    (r#"{"id":"open","payload":{}"#, "line 1"),
    (r#"{"id":"extra","payload":{},"unknown":1}"#, "field number 3"),
    (r#"{"ID":"case","payload":{}}"#, "field number 1"),
    (r#"{"id":"twice","payload":{},"payload":{}}"#, "twice"),
];

/// Requests all the same: their payloads, which go on as they are.
const TAKEN: [(&str, &str); 7] = [
    ("1e400", r#"{"model":"m","temperature":1e400}"#),
    ("empty", "{}"),
    ("text", r#""text""#),
    ("list", "[]"),
    ("number", "-0.0"),
    ("false", "false"),
    ("nulls", r#"{"model":null}"#),
];

async fn post(fleet: &Fleet, kind: Option<&str>, body: &str) -> Answer {
    let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
    let url = fleet.api("/v1/queues/q/requests");
    fleet.http.request("POST", &url, &headers, body.to_owned()).await
}

/// Told what is wrong with it, where; and nothing of it is kept.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_with_its_reason_and_leaves_nothing() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    for (body, reason) in REFUSED {
        let answer = post(&fleet, Some("application/json"), body).await;
        let told = (answer.status, stage::problem_of(&answer));
        assert_eq!(told, (400, "invalid-item".to_owned()), "{body}");
        assert!(answer.text().contains(reason), "{body}: {}", answer.text());
        for foreign in ["NaN", "Infinity", "trailing", "single", "extra"] {
            assert!(!answer.text().contains(foreign), "its own words came back: {}", answer.text());
        }
    }
    for key in ["pending", "delayed", "leased", "finished", "dead", "request", "ticket", "result"] {
        assert_eq!(fleet.count(key).await, 0, "something of it is in {key}");
    }
    aftermath::nobody_panicked(&fleet, &[]);
}

/// Any value but null is a payload, whatever the gateway will say of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_a_request_goes_on_as_it_was_written() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    for (id, payload) in TAKEN {
        fleet.submit(id, payload).await;
    }
    let worker = fleet.worker();
    let ids = TAKEN.map(|(id, _)| id.to_owned());
    let outcomes = aftermath::of(&fleet, &ids, &[&worker]).await;
    assert!(outcomes.iter().all(|outcome| outcome == "answered"), "{outcomes:?}");
    let mut arrived: Vec<_> = fleet.gateway.arrivals().into_iter().map(|it| it.body).collect();
    let mut sent = TAKEN.map(|(_, payload)| payload.as_bytes().to_vec());
    arrived.sort();
    sent.sort();
    assert_eq!(arrived, sent);
}

/// One type is taken, in one encoding; bytes of another encoding are refused whatever they are called.
#[tokio::test(flavor = "multi_thread")]
async fn only_json_in_utf_8_is_read() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let body = r#"{"id":"typed","payload":{}}"#;
    let others = [
        None,
        Some("text/plain"),
        Some("application/json; charset=utf-16"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonp"),
        Some("json"),
        Some(""),
    ];
    for kind in others {
        let answer = post(&fleet, kind, body).await;
        let told = (answer.status, stage::problem_of(&answer));
        assert_eq!(told, (415, "unsupported-media-type".to_owned()), "{kind:?}");
    }
    let wide: Vec<u8> = body.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let url = fleet.api("/v1/queues/q/requests");
    let latin = b"{\"id\":\"typed\",\"payload\":\"caf\xe9\"}".to_vec();
    for bytes in [wide, latin] {
        let headers = [("content-type", "application/json")];
        let answer = fleet.http.request("POST", &url, &headers, bytes).await;
        let told = (answer.status, stage::problem_of(&answer));
        assert_eq!(told, (400, "invalid-item".to_owned()));
    }
    assert_eq!(fleet.result_now("typed").await.status, 404, "nothing of it is kept");
    for kind in ["application/json; charset=utf-8", "Application/JSON;charset=\"UTF-8\""] {
        let answer = post(&fleet, Some(kind), body).await;
        assert!(matches!(answer.status, 200 | 202), "{kind}: {}", answer.text());
    }
}
