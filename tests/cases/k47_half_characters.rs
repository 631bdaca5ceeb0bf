//! K47: escapes of half a character.
//!
//! Some writers cut a string in the middle of an emoji. One parser takes what is left, the next refuses it, and a request
//! is accepted that its worker can't read.

use crate::fleet::Setup;
use crate::pace::beside_others;
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

/// Contents as JSON writes them.
const CONTENTS: [&str; 5] =
    ["x\\ud83d", "\\ude00x", "\\ude00\\ud83d", "\\ud83d\\ude00", "\\uD83D\\n"];

/// Passed on as they are, in both directions, also as a key.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_character_is_passed_on_as_it_was_written() {
    let _shared = beside_others().await;
    let plan = |asked: &crate::raw_gateway::Asked<'_>| {
        Answer::with(200, &[], std::str::from_utf8(asked.body).expect("ASCII"))
    };
    let (fleet, gateway) = stage::raw(Setup::default(), plan).await;
    let worker = fleet.worker();
    let payloads = CONTENTS.map(|content| format!("{{\"content\":\"{content}\",\"{content}\":1}}"));
    let ids = stage::ids("k47", payloads.len());
    for (id, payload) in ids.iter().zip(&payloads) {
        fleet.submit(id, payload).await;
        let (outcome, result) = fleet.result(id).await;
        assert_eq!((outcome.as_str(), result.text()), ("answered", payload.as_str()));
    }
    let bodies: Vec<String> = gateway
        .arrivals()
        .iter()
        .map(|it| String::from_utf8_lossy(&it.body).into_owned())
        .collect();
    assert_eq!(bodies, payloads);
    aftermath::of(&fleet, &ids, &[&worker]).await;
}
