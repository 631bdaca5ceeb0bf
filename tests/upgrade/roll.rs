//! Rolled out and rolled back, role after role, while requests come in and are worked on.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use holdfast_testkit::eventually;
use holdfast_testkit::stand_in::Rule;
use tokio::time::sleep;

use crate::fleet::{Fleet, Role, SOON};
use crate::programs::Programs;
use crate::stage::{Api, fleet, has_next_field, item, start};

/// How many requests go through each mixture of versions.
const EACH: usize = 60;
/// The pace of the submits.
const PACE: Duration = Duration::from_millis(5);

/// Where requests can be submitted at the moment: each producer, and whether it is of the newer version.
type Apis = RefCell<Vec<(Api, bool)>>;

/// What was accepted: each id, and whether a newer producer took it in.
type Accepted = RefCell<Vec<(String, bool)>>;

/// Submits to the producers in turn, until `stop`. What one does not answer, another is asked for, under the same id.
async fn load(fleet: &Fleet, apis: &Apis, accepted: &Accepted, stop: &Cell<bool>) {
    let mut turn = 0;
    while !stop.get() {
        let id = format!("r{}", accepted.borrow().len());
        turn += 1;
        let (url, is_newer) = {
            let apis = apis.borrow();
            let (api, is_newer) = &apis[turn % apis.len()];
            (api.url("requests"), *is_newer)
        };
        let headers: &[(&str, &str)] = &[("content-type", "application/json")];
        let answer = fleet.http.try_request("POST", &url, headers, item(&id, "")).await;
        match answer.map(|answer| (answer.status, answer.text().to_owned())) {
            Ok((202, _)) => accepted.borrow_mut().push((id, is_newer)),
            // It was taken in by the one that did not answer.
            Ok((200, _)) => accepted.borrow_mut().push((id, !is_newer)),
            Ok((503, _)) | Err(_) => {}
            Ok((status, text)) => panic!("{status}: {text}"),
        }
        sleep(PACE).await;
    }
}

/// Waits until so many more have been accepted and reached the gateway.
async fn some_more(fleet: &Fleet, accepted: &Accepted) {
    let (wanted, arrived) = (accepted.borrow().len() + EACH, fleet.gateway.counts().arrived);
    eventually("requests go on", SOON, async || {
        let (taken, now) = (accepted.borrow().len(), fleet.gateway.counts().arrived);
        if taken >= wanted && now >= arrived + EACH as u64 {
            Ok(())
        } else {
            Err(format!("{taken} of {wanted} accepted, {now} arrived, {arrived} before"))
        }
    })
    .await;
}

/// Puts another program in a role's place: the new one is there before the old one ends.
async fn replace(fleet: &Fleet, name: &str, role: &mut Role, program: &Path) {
    let mut old = std::mem::replace(role, start(fleet, name, program, &[]).await);
    assert!(old.process.terminate().await.success(), "{name}: {}", old.process.output());
}

async fn replace_producer(fleet: &Fleet, apis: &Apis, program: &Path, is_newer: bool) {
    let next = Api::start(fleet, program).await;
    apis.borrow_mut().push((next, is_newer));
}

/// The producer that was there first ends, while the other takes its callers.
async fn end_first(apis: &Apis) {
    let (mut old, _) = apis.borrow_mut().remove(0);
    assert!(old.role.process.terminate().await.success(), "{}", old.role.process.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_is_rolled_out_and_back_under_load_and_every_request_is_answered_once() {
    let (older, newer) = (Programs::older(), Programs::newer().await);
    let fleet = fleet("").await;
    fleet.gateway.script(vec![Rule::on_body("0>").times(20).status(503)]).expect("a rule");
    let apis: Apis = RefCell::new(vec![(Api::start(&fleet, &older.producer).await, false)]);
    let mut reclaimer = start(&fleet, "reclaimer", &older.reclaimer, &[]).await;
    let mut worker = start(&fleet, "worker", &older.worker, &[]).await;
    let (accepted, stop) = (Accepted::default(), Cell::new(false));
    let roll = async {
        some_more(&fleet, &accepted).await;
        // Out, as the page says: reclaimers, workers, producers.
        replace(&fleet, "reclaimer", &mut reclaimer, &newer.reclaimer).await;
        some_more(&fleet, &accepted).await;
        replace(&fleet, "worker", &mut worker, &newer.worker).await;
        some_more(&fleet, &accepted).await;
        replace_producer(&fleet, &apis, &newer.producer, true).await;
        some_more(&fleet, &accepted).await;
        end_first(&apis).await;
        some_more(&fleet, &accepted).await;
        // Back, in the same order: older workers get what newer producers take in.
        replace(&fleet, "reclaimer", &mut reclaimer, &older.reclaimer).await;
        replace(&fleet, "worker", &mut worker, &older.worker).await;
        some_more(&fleet, &accepted).await;
        replace_producer(&fleet, &apis, &older.producer, false).await;
        some_more(&fleet, &accepted).await;
        end_first(&apis).await;
        some_more(&fleet, &accepted).await;
        stop.set(true);
    };
    tokio::join!(load(&fleet, &apis, &accepted, &stop), roll);

    let accepted = accepted.into_inner();
    fleet.wait_for_count("finished", accepted.len() as i64, SOON).await;
    let (api, _) = apis.into_inner().remove(0);
    let mut by_newer = 0;
    for (id, is_newer) in &accepted {
        let path = format!("requests/{id}/result");
        let answer = api.call(&fleet, "GET", &path, "").await.expect("an answer");
        assert_eq!(answer.header("holdfast-outcome"), Some("answered"), "{id}: {}", answer.text());
        assert_eq!(has_next_field(&fleet, id).await, *is_newer, "{id}");
        by_newer += usize::from(*is_newer);
    }
    assert!(by_newer >= EACH && accepted.len() - by_newer >= EACH, "{by_newer}");
    // A roll hands back and goes on: nothing lapses, and nothing is called again but what was refused.
    let refused = fleet.gateway.counts().arrived - accepted.len() as u64;
    assert_eq!(refused, 20, "calls beside one for each request");
}
