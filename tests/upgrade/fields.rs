//! What a newer version wrote, in the hands of this one, and the other way round.

use std::time::Duration;

use holdfast_testkit::eventually;
use holdfast_testkit::stand_in::Rule;
use serde_json::Value;

use crate::fleet::{Fleet, SOON};
use crate::programs::Programs;
use crate::stage::{Api, fleet, has_next_field, item, start};

/// Waits for the end of a request.
async fn outcome(fleet: &Fleet, api: &Api, id: &str) -> String {
    eventually(&format!("{id} ends"), SOON, async || {
        let path = format!("requests/{id}/result?wait=5");
        let answer = api.call(fleet, "GET", &path, "").await?;
        let outcome = answer.header("holdfast-outcome").map(str::to_owned);
        outcome.ok_or_else(|| format!("{}: {}", answer.status, answer.text()))
    })
    .await
}

/// Every way through the homes, with requests of one version and all other roles of the other.
async fn every_way(of: &Programs, through: &Programs, has_field: bool) {
    let fleet = fleet("max_attempts = 3").await;
    let rules = vec![
        Rule::on_body("<retried>").times(2).status(503),
        Rule::on_body("<dead>").cut_after(0),
        Rule::on_body("<lapsed>").times(1).hang(),
    ];
    fleet.gateway.script(rules).expect("rules");
    let (theirs, ours) =
        (Api::start(&fleet, &of.producer).await, Api::start(&fleet, &through.producer).await);
    let _reclaimer = start(&fleet, "reclaimer", &through.reclaimer, &[]).await;
    let ids = ["answered", "retried", "dead", "lapsed", "cancelled", "later"];
    let soon = unix() + 2;
    for id in ids {
        let more = match id {
            "cancelled" => format!("\"not_before\":{},", unix() + 300),
            "later" => format!("\"not_before\":{soon},"),
            _ => String::new(),
        };
        theirs.submit(&fleet, id, &more).await;
        assert_eq!(has_next_field(&fleet, id).await, has_field, "{id} at its submit");
    }
    // The same bytes are known by the id rule to either version.
    for api in [&ours, &theirs] {
        let again = api.call(&fleet, "POST", "requests", &item("answered", "")).await.unwrap();
        assert_eq!(again.status, 200, "{}", again.text());
        let path = "requests/answered";
        let status: Value =
            serde_json::from_slice(&api.call(&fleet, "GET", path, "").await.unwrap().body).unwrap();
        assert_eq!(status["state"], "pending");
    }
    let cancelled = ours.call(&fleet, "DELETE", "requests/cancelled", "").await.unwrap();
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());

    let mut first = start(&fleet, "worker", &through.worker, &[]).await;
    eventually("the one that hangs has arrived", SOON, async || {
        if fleet.arrivals_of("<lapsed>").len() == 1 { Ok(()) } else { Err("not yet") }
    })
    .await;
    assert_eq!(has_next_field(&fleet, "lapsed").await, has_field, "lapsed while it is leased");
    first.process.kill();
    let _heir = start(&fleet, "worker", &through.worker, &[]).await;
    for (id, end) in [
        ("answered", "answered"),
        ("retried", "answered"),
        ("dead", "gave-up"),
        ("lapsed", "answered"),
        ("cancelled", "cancelled"),
        ("later", "answered"),
    ] {
        for api in [&ours, &theirs] {
            assert_eq!(outcome(&fleet, api, id).await, end, "{id}");
        }
        assert_eq!(has_next_field(&fleet, id).await, has_field, "{id} at its end");
    }
    let lapsed = ours.call(&fleet, "GET", "requests/lapsed", "").await.unwrap();
    let status: Value = serde_json::from_slice(&lapsed.body).unwrap();
    assert_eq!((&status["attempts"], &status["lapses"]), (&2.into(), &1.into()));

    fleet.gateway.script(Vec::new()).expect("no rules");
    let ask = r#"{"ids":["dead"],"filter":{"tenant":"default"},"#;
    let counted = ours.operate(&fleet, "dead/redrive", &format!("{ask}\"dry_run\":true}}")).await;
    let confirmed =
        format!("{ask}\"count\":{},\"as_of\":{}}}", counted["matched"], counted["as_of"]);
    let redriven = ours.operate(&fleet, "dead/redrive", &confirmed).await;
    assert_eq!(redriven["redriven"], 1, "{redriven}");
    assert_eq!(has_next_field(&fleet, "dead").await, has_field, "dead at its redrive");
    for api in [&ours, &theirs] {
        assert_eq!(outcome(&fleet, api, "dead").await, "answered");
    }
    assert_eq!(has_next_field(&fleet, "dead").await, has_field, "dead at its second end");
}

fn unix() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "times of callers are Unix times")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a clock after 1970").max(Duration::from_secs(1)).as_secs()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_a_newer_version_added_goes_through_every_home_in_the_hands_of_the_older_one()
{
    let (older, newer) = (Programs::older(), Programs::newer().await);
    every_way(&newer, &older, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_goes_on_with_what_the_older_one_wrote() {
    let (older, newer) = (Programs::older(), Programs::newer().await);
    every_way(&older, &newer, false).await;
}
