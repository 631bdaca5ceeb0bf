//! K55: an answer in events, asked for or not.
//!
//! A payload that asks for a stream is taken, and the text of the events is then read as JSON, which it is not, again and
//! again.

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

/// The events as they are.
const EVENTS: &str =
    "data: {\"delta\":\"he\"}\n\ndata: {\"delta\":\"y\"}\n\n: keep-alive\n\ndata: [DONE]\n\n";

/// In chunks that cut events in the middle.
fn chunked() -> String {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
    let pieces = [&EVENTS[..29], &EVENTS[29..50], &EVENTS[50..]];
    let chunks: String = pieces.iter().map(|it| format!("{:x}\r\n{it}\r\n", it.len())).collect();
    format!("{head}{chunks}0\r\n\r\n")
}

/// Collected whole, kept with its type, and asked for once.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_is_collected_and_kept_as_it_is() {
    let _shared = beside_others().await;
    let (fleet, gateway) = stage::raw(Setup::default(), |_| Answer::raw(chunked())).await;
    let worker = fleet.worker();
    fleet.submit("asked", "{\"model\":\"some-model\",\"stream\":true}").await;
    fleet.submit("unasked", "{\"model\":\"some-model\"}").await;
    let ids = ["asked", "unasked"].map(str::to_owned);
    for id in &ids {
        let (outcome, result) = fleet.result(id).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", EVENTS), "{id}");
        assert_eq!(result.header("content-type"), Some("text/event-stream; charset=utf-8"));
    }
    assert_eq!(gateway.arrivals().len(), 2);
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
