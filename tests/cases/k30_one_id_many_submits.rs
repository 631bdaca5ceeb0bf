//! K30: one id is submitted by many at once.
//!
//! Where the id is looked up first and written then, two of them find it free: two entries, and two calls.

use std::time::Duration;

use holdfast_testkit::http::Answer;
use serde_json::Value;

use crate::aftermath;
use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::beside_others;
use crate::raw_gateway;
use crate::stage::{self, Api};

const MANY: usize = 50;

/// Long enough to look at it meanwhile.
const SLOW: Duration = Duration::from_secs(2);

fn item(id: &str, text: &str) -> String {
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload(text))
}

/// All of them at once, through two producers.
async fn at_once(fleet: &Fleet, other: &Api, items: Vec<String>) -> Vec<Answer> {
    let calls = items.into_iter().enumerate().map(|(at, item)| async move {
        if at % 2 == 0 {
            return fleet.post(&item).await;
        }
        let answer = other.call(fleet, "POST", "/v1/queues/q/requests", &item).await;
        answer.expect("an answer")
    });
    stage::all(calls).await
}

fn generation(answer: &Answer) -> Value {
    let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
    body["generation"].clone()
}

/// How many were answered with a status.
fn with_status(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

/// The same bytes and other bytes again, while it is in this state.
async fn once_more(fleet: &Fleet, state: &str, first: &Value) {
    assert_eq!(fleet.status("same").await["state"], state);
    let same = fleet.post(&item("same", "same")).await;
    assert_eq!((same.status, &generation(&same)), (200, first), "{}", same.text());
    assert_eq!(same.header("idempotent-replayed"), Some("true"));
    let other = fleet.post(&item("same", "other")).await;
    assert_eq!((other.status, stage::problem_of(&other).as_str()), (422, "id-reused"));
    assert_eq!(&generation(&other), first);
}

/// The same bytes are one request for all of them; of different ones exactly one is taken, and it runs once.
#[tokio::test(flavor = "multi_thread")]
async fn many_submits_of_one_id_are_one_request() {
    let _shared = beside_others().await;
    // Busy at first, and slowly: so it is seen in each of its homes.
    let plan = |asked: &raw_gateway::Asked<'_>| match asked.has("<same>") && asked.earlier == 0 {
        true => raw_gateway::Answer::with(503, &["Retry-After: 3"], "{}").after(SLOW),
        false => raw_gateway::Answer::ok(),
    };
    let (fleet, gateway) = stage::raw(Setup::default(), plan).await;
    let other = Api::start(&fleet).await;

    let same = at_once(&fleet, &other, vec![item("same", "same"); MANY]).await;
    assert_eq!((with_status(&same, 202), with_status(&same, 200)), (1, MANY - 1));
    let first = generation(&same[0]);
    assert!(same.iter().all(|answer| generation(answer) == first));

    let different = (0..MANY).map(|number| item("differ", &format!("d{number}"))).collect();
    let different = at_once(&fleet, &other, different).await;
    assert_eq!((with_status(&different, 202), with_status(&different, 422)), (1, MANY - 1));
    let won = different.iter().position(|answer| answer.status == 202).expect("one is taken");
    let refused = different.iter().filter(|answer| answer.status == 422);
    for answer in refused {
        assert_eq!(stage::problem_of(answer), "id-reused");
        assert_eq!(generation(answer), generation(&different[won]));
    }

    once_more(&fleet, "pending", &first).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    gateway.wait_until("it is claimed", SOON, |all| all.iter().any(|it| it.has("<same>"))).await;
    once_more(&fleet, "leased", &first).await;
    fleet.wait_for_count("delayed", 1, SOON).await;
    once_more(&fleet, "delayed", &first).await;
    let ids = ["same", "differ"].map(str::to_owned);
    let outcomes = aftermath::of(&fleet, &ids, &[&worker, &reclaimer, &other.role]).await;
    assert_eq!(outcomes, ["answered", "answered"]);
    assert_eq!(gateway.arrivals_of("<same>").len(), 2, "once, and once more after the refusal");
    assert_eq!(gateway.arrivals().len(), 3);
    assert!(gateway.arrivals().iter().any(|it| it.has(&format!("<d{won}>"))), "the one taken runs");
    once_more(&fleet, "finished", &first).await;
}
