//! K25: what the gateway refuses for good is not tried again; what it can't do now is.
//!
//! A request that is too long stays too long: a dozen tries of it cost a gateway's time, and hold up others.

use std::time::Duration;

use crate::fleet::{SOON, Setup};
use crate::pace::beside_others;
use crate::raw_gateway::{Answer, Asked};
use crate::{aftermath, stage};

/// The gateway's last word.
const FINAL: [u16; 8] = [400, 401, 403, 404, 405, 413, 422, 501];
/// "Not now."
const LATER: [u16; 8] = [408, 409, 425, 429, 500, 502, 503, 504];

const TOO_LONG: &str = "{\"error\":{\"message\":\"too many tokens\",\"type\":\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}";

fn plan(asked: &Asked<'_>) -> Answer {
    let named = |status: &u16| asked.has(&format!("<k25-{status}>"));
    match FINAL.iter().chain(&LATER).find(|status| named(status)) {
        Some(status) if asked.earlier == 0 => Answer::with(*status, &[], TOO_LONG),
        Some(status) if FINAL.contains(status) => Answer::with(500, &[], "\"asked again\""),
        _ => Answer::ok(),
    }
}

/// One call for what is final, with its status and its bytes; a second one, a while later, for the rest.
#[tokio::test(flavor = "multi_thread")]
async fn final_refusals_end_at_once_and_passing_ones_are_tried_again() {
    let _shared = beside_others().await;
    let (fleet, gateway) = stage::raw(Setup::default(), plan).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let ids: Vec<String> =
        FINAL.iter().chain(&LATER).map(|status| format!("k25-{status}")).collect();
    stage::submit_all(&fleet, &ids).await;
    for status in FINAL {
        let (outcome, result) = fleet.result(&format!("k25-{status}")).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", TOO_LONG), "{status}");
        assert_eq!(result.header("holdfast-status"), Some(status.to_string().as_str()));
        assert_eq!(result.header("content-type"), Some("application/json"));
    }
    for status in LATER {
        let (outcome, result) = fleet.result_within(&format!("k25-{status}"), SOON).await;
        assert_eq!(
            (outcome.as_str(), result.header("holdfast-status")),
            ("answered", Some("200")),
            "{status}"
        );
    }
    for id in &ids {
        let arrivals = gateway.arrivals_of(&stage::mark(id));
        match &*arrivals {
            [_] => assert!(
                FINAL.iter().any(|status| *id == format!("k25-{status}")),
                "{id} was not tried again"
            ),
            [first, second] => {
                let gap = second.at.duration_since(first.at);
                assert!(gap >= Duration::from_millis(500), "{id} was tried again after {gap:?}");
                assert!(
                    LATER.iter().any(|status| *id == format!("k25-{status}")),
                    "{id} was tried again"
                );
            }
            more => panic!("{id} was tried {} times", more.len()),
        }
    }
    // A gateway that refuses what is wrong is a healthy one.
    fleet.ready(worker.ops).await;
    let outcomes = aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
    assert_eq!(outcomes, vec!["answered"; ids.len()]);
}
