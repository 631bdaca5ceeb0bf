//! The reply of a call is lost, or a first copy of it arrives after its repeat was answered: the effect is that of one call.

use std::time::Duration;

use holdfast_core::script;
use holdfast_testkit::proxy::evalsha;
use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Fault, Proxy, When, eventually};

use crate::fleet::{Fleet, SOON};

fn sha1(name: &str) -> String {
    script::all().into_iter().find(|script| script.name == name).expect("a script").sha1
}

/// A fleet whose roles reach Redis through a proxy that does `fault` to the first `count` calls of a script.
async fn fleet_with(
    name: &str,
    fault: Fault,
    count: usize,
) -> (Fleet, Proxy, holdfast_testkit::proxy::Injected) {
    let (fleet, proxy) = Fleet::behind_proxy().await;
    let injected = proxy.inject(fault, When::First(count), evalsha(&sha1(name)));
    (fleet, proxy, injected)
}

/// Submits until the answer says that it is there.
async fn submit(fleet: &Fleet, id: &str) {
    let item =
        format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{{\"content\":\"<{id}>\"}}}}");
    eventually("a submit is taken", SOON, async || {
        let answer = fleet.post(&item).await;
        match answer.status {
            200 | 202 => Ok(()),
            // Told as unknown: repeat with the same id.
            503 => Err(answer.text().to_owned()),
            other => panic!("{other}: {}", answer.text()),
        }
    })
    .await;
}

/// One record, one arrival, nothing left.
async fn ended_once(fleet: &Fleet, ids: &[String]) {
    for id in ids {
        assert_eq!(fleet.result(id).await.0, "answered", "{id}");
        assert_eq!(
            fleet.arrivals_of(&format!("<{id}>")).len(),
            1,
            "{id} was dispatched more than once"
        );
    }
    fleet.wait_for_count("leased", 0, SOON).await;
    assert_eq!(fleet.count("finished").await, ids.len() as i64);
    assert_eq!((fleet.count("pending").await, fleet.count("request").await), (0, 0));
}

fn ids() -> Vec<String> {
    (0..8).map(|number| format!("r{number}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_whose_reply_is_lost_is_accepted_once() {
    let (fleet, _proxy, lost) = fleet_with("submit", Fault::LoseReply, 4).await;
    let _worker = fleet.worker();
    for id in ids() {
        submit(&fleet, &id).await;
    }
    assert_eq!(lost.fired(), 4);
    ended_once(&fleet, &ids()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_that_arrives_after_its_repeat_was_answered_changes_nothing() {
    let (fleet, proxy, held) = fleet_with("submit", Fault::HoldRequest, 1).await;
    let _worker = fleet.worker();
    for id in ids() {
        submit(&fleet, &id).await;
    }
    assert_eq!(held.fired(), 1);
    ended_once(&fleet, &ids()).await;
    proxy.release_held().await;
    ended_once(&fleet, &ids()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_reply_is_lost_is_handed_out_again_by_its_number() {
    let (fleet, _proxy, lost) = fleet_with("claim", Fault::LoseReply, 6).await;
    for id in ids() {
        submit(&fleet, &id).await;
    }
    // No reclaimer: nobody else could give the leases back.
    let _worker = fleet.worker();
    ended_once(&fleet, &ids()).await;
    assert_eq!(lost.fired(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_arrives_after_its_repeat_was_answered_leases_nothing() {
    let (fleet, proxy, held) = fleet_with("claim", Fault::HoldRequest, 1).await;
    let worker = fleet.worker();
    held.wait_fired(1, SOON).await;
    fleet.ready(worker.ops).await;
    for id in ids() {
        submit(&fleet, &id).await;
    }
    ended_once(&fleet, &ids()).await;
    fleet.gateway.hold(true);
    submit(&fleet, "last").await;
    fleet.gateway.wait_for_arrivals(9, SOON).await.expect("dispatched");
    let before = fleet.count("leased").await;
    proxy.release_held().await;
    assert_eq!(fleet.count("leased").await, before, "a late claim leased something");
    fleet.gateway.hold(false);
    assert_eq!(fleet.result("last").await.0, "answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_whose_reply_is_lost_is_said_again_and_publishes_once() {
    let (fleet, _proxy, lost) = fleet_with("settle", Fault::LoseReply, 3).await;
    let worker = fleet.worker();
    for id in ids() {
        submit(&fleet, &id).await;
    }
    ended_once(&fleet, &ids()).await;
    assert_eq!(lost.fired(), 3);
    eventually("the worker was told so", SOON, async || {
        match fleet.metric(&worker, "holdfast_settles_total", "outcome=\"already\"").await {
            0.0 => Err("nothing was settled twice"),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_arrives_after_its_repeat_was_answered_changes_nothing() {
    let (fleet, proxy, held) = fleet_with("settle", Fault::HoldRequest, 1).await;
    // First a retry, then the answer: the late copy of the retry meets the end.
    fleet
        .gateway
        .script(vec![Rule { status: Some(503), times: Some(1), ..Rule::default() }])
        .expect("a rule");
    let _worker = fleet.worker();
    submit(&fleet, "r0").await;
    let (outcome, record) = fleet.result("r0").await;
    assert_eq!((outcome.as_str(), held.fired()), ("answered", 1));
    let said = proxy.release_held().await;
    assert_eq!(said.len(), 1);
    let (_, again) = fleet.result("r0").await;
    assert_eq!(again.body, record.body);
    assert_eq!((fleet.count("delayed").await, fleet.count("finished").await), (0, 1));
    assert_eq!(fleet.gateway.counts().arrived, 2, "one retry, one answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_whose_reply_is_lost_can_be_said_again() {
    let (fleet, _proxy, lost) = fleet_with("cancel", Fault::LoseReply, 1).await;
    submit(&fleet, "r0").await;
    let path = "/v1/queues/q/requests/r0";
    eventually("the cancel is answered", SOON, async || {
        match fleet.call("DELETE", path, b"").await.status {
            200 => Ok(()),
            503 => Err("told as unknown"),
            other => panic!("{other}"),
        }
    })
    .await;
    assert_eq!(lost.fired(), 1);
    assert_eq!(fleet.result("r0").await.0, "cancelled");
    assert_eq!((fleet.count("finished").await, fleet.count("pending").await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_arrives_late_spares_the_next_generation() {
    let (fleet, proxy, held) = fleet_with("cancel", Fault::HoldRequest, 1).await;
    submit(&fleet, "r0").await;
    let path = "/v1/queues/q/requests/r0";
    eventually("the cancel is answered", SOON, async || {
        match fleet.call("DELETE", path, b"").await.status {
            200 => Ok(()),
            503 => Err("told as unknown"),
            other => panic!("{other}"),
        }
    })
    .await;
    assert_eq!(held.fired(), 1);
    // Its retention is over, and the id is used anew.
    let end = b"0";
    let members = match fleet.redis.command(&["ZRANGE", "hf1:{q/0}:finished", "0", "-1"]).await {
        holdfast_testkit::Value::Array(members) => members,
        other => panic!("{other:?}"),
    };
    assert_eq!(members.len(), 1);
    if let holdfast_testkit::Value::Bytes(member) = &members[0] {
        fleet.redis.command(&[&b"ZADD"[..], b"hf1:{q/0}:finished", end, member]).await;
    }
    let _reclaimer = fleet.reclaimer();
    fleet.wait_for_count("finished", 0, SOON).await;
    submit(&fleet, "r0").await;
    proxy.release_held().await;
    assert_eq!(
        fleet.status("r0").await["state"],
        "pending",
        "a late cancel hit another generation"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_whose_replies_are_lost_cost_no_lease() {
    let (fleet, _proxy, lost) = fleet_with("renew", Fault::LoseReply, 2).await;
    let reclaimer = fleet.reclaimer();
    let _worker = fleet.worker();
    fleet.gateway.hold(true);
    for id in ids() {
        submit(&fleet, &id).await;
    }
    fleet.gateway.wait_for_arrivals(8, SOON).await.expect("all in flight");
    lost.wait_fired(2, SOON).await;
    lost.wait_matched(5, SOON + Duration::from_secs(10)).await;
    assert_eq!(fleet.metric(&reclaimer, "holdfast_redeliveries_total", "").await, 0.0);
    fleet.gateway.hold(false);
    ended_once(&fleet, &ids()).await;
}
