//! K45: numbers and empty lists arrive as they were written.
//!
//! Whatever reads a body and writes it anew loses what its own types can't hold: seeds above 2^53, `1.0`, `-0.0`, `[]`, the
//! order of keys, the spaces between them.

use holdfast_testkit::eventually;

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, time};
use crate::raw_gateway::{Answer, Asked, RawGateway};
use crate::{aftermath, stage};

/// A payload with everything that is easily lost. `answer` brings it back.
const PAYLOAD: &str = include_str!("files/exact-payload.json");

/// An answer with the same, and with spaces and a line of its own at its end.
fn answer() -> Answer {
    Answer::with(200, &[], &answered())
}

fn answered() -> String {
    format!("{{\"echo\" :  {},\n\"n\":-0.0 }}\r\n", PAYLOAD.trim_end())
}

fn payload() -> &'static str {
    PAYLOAD.trim_end()
}

async fn submit(fleet: &Fleet, id: &str) {
    let item = format!(" {{\"payload\" :{} ,\"id\":\"{id}\",\"timeout\":\"10m\"}}\n", payload());
    let taken = fleet.post(&item).await;
    assert_eq!(taken.status, 202, "{}", taken.text());
}

/// Every body that arrived, and the answer that is kept, byte for byte.
async fn is_exact(fleet: &Fleet, gateway: &RawGateway, id: &str, arrivals: usize) {
    let (outcome, result) = fleet.result(id).await;
    assert_eq!(outcome, "answered");
    assert_eq!(result.text(), answered(), "the answer has changed on its way");
    let bodies = gateway.arrivals();
    assert_eq!(bodies.len(), arrivals);
    for arrival in bodies {
        assert_eq!(
            std::str::from_utf8(&arrival.body),
            Ok(payload()),
            "the body has changed on its way"
        );
    }
}

/// At the first try.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_and_its_answer_pass_byte_for_byte() {
    let _shared = beside_others().await;
    let (fleet, gateway) = stage::raw(Setup::default(), |_| answer()).await;
    let worker = fleet.worker();
    submit(&fleet, "k45-1").await;
    is_exact(&fleet, &gateway, "k45-1", 1).await;
    aftermath::of(&fleet, &stage::ids("k45", 1), &[&worker]).await;
}

/// After a retry.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_sends_the_same_bytes() {
    let _shared = beside_others().await;
    let plan = |asked: &Asked<'_>| match asked.earlier {
        0 => Answer::with(503, &[], "\"not now\""),
        _ => answer(),
    };
    let (fleet, gateway) = stage::raw(Setup::default(), plan).await;
    let worker = fleet.worker();
    submit(&fleet, "k45-1").await;
    is_exact(&fleet, &gateway, "k45-1", 2).await;
    aftermath::of(&fleet, &stage::ids("k45", 1), &[&worker]).await;
}

/// After the first worker was killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_redelivery_sends_the_same_bytes() {
    let _shared = beside_others().await;
    let plan = |asked: &Asked<'_>| match asked.earlier {
        0 => answer().after(time(120.0)),
        _ => answer(),
    };
    let setup = Setup {
        worker: stage::worker(4, time(6.0)),
        reclaimer: stage::reclaimer(time(1.0)),
        ..Setup::default()
    };
    let (fleet, gateway) = stage::raw(setup, plan).await;
    let (reclaimer, mut doomed) = (fleet.reclaimer(), fleet.worker());
    submit(&fleet, "k45-1").await;
    gateway.wait_for_arrivals(1, SOON).await;
    doomed.process.kill();
    let heir = fleet.worker();
    eventually("it arrives again", time(7.0) + SOON, async || match gateway.arrivals().len() {
        2 => Ok(()),
        arrived => Err(format!("{arrived} arrived")),
    })
    .await;
    is_exact(&fleet, &gateway, "k45-1", 2).await;
    aftermath::of(&fleet, &stage::ids("k45", 1), &[&heir, &reclaimer]).await;
}
