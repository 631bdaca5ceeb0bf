//! K48: line separators that are none.
//!
//! A reader of lines that knows Unicode cuts at U+2028, U+2029 and NEL, which JSON may hold as they are: records break in two.

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::raw_gateway::{Answer, Asked};
use crate::{aftermath, stage};

/// Four lines are four requests, and what looks like an end of a line arrives as it was written, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_line_feed_ends_a_line() {
    let _shared = beside_others().await;
    let plan =
        |asked: &Asked<'_>| Answer::with(200, &[], std::str::from_utf8(asked.body).expect("UTF-8"));
    let (fleet, gateway) = stage::raw(Setup::default(), plan).await;
    let worker = fleet.worker();
    let payloads =
        ["a\u{2028}b", "a\u{2029}b", "a\u{85}b", "ok"].map(|text| format!("[\"{text}\"]"));
    let ids = stage::ids("k48", payloads.len());
    let line = |(id, payload): (&String, &String)| {
        format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{payload}}}\n")
    };
    let batch: String = ids.iter().zip(&payloads).map(line).collect();
    let told = stage::batch(&fleet, &batch).await;
    assert!(told.iter().all(|line| line["status"] == 202) && told.len() == 4, "{told:?}");
    for (id, payload) in ids.iter().zip(&payloads) {
        let (outcome, result) = fleet.result(id).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", payload.as_str()));
    }
    assert_eq!(gateway.arrivals().len(), 4);
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
