//! What must hold after every case, whatever it was about.

use std::time::Duration;

use crate::fleet::{Fleet, Role, SOON};
use crate::stage::holdfastctl;
use holdfast_testkit::eventually;

/// How a request ended: by RESULT, which STATUS must agree with.
pub(crate) type Outcome = String;

/// Everything ended once, all who are asked tell the same, nothing is left, nobody panicked.
///
/// `ids` are all requests of the case, `roles` those that still run. Gives their outcomes, in the order of `ids`.
pub(crate) async fn of(fleet: &Fleet, ids: &[String], roles: &[&Role]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for id in ids {
        outcomes.push(one_story(fleet, id).await);
    }
    nothing_is_left(fleet, ids.len()).await;
    for role in roles {
        for gauge in ["holdfast_in_flight", "holdfast_leases_held"] {
            eventually(&format!("{gauge} is 0"), SOON, async || {
                match fleet.metric(role, gauge, "").await {
                    0.0 => Ok(()),
                    count => Err(format!("it is {count}")),
                }
            })
            .await;
        }
    }
    nobody_panicked(fleet, roles);
    outcomes
}

/// The end of a request, by RESULT twice and by STATUS.
async fn one_story(fleet: &Fleet, id: &str) -> Outcome {
    let (outcome, result) = fleet.result(id).await;
    let (again, repeated) = fleet.result_within(id, Duration::from_secs(5)).await;
    assert_eq!((&again, &repeated.body), (&outcome, &result.body), "{id}: its record changed");
    let status = fleet.status(id).await;
    assert_eq!(status["outcome"], *outcome, "{id}: STATUS and RESULT differ");
    let attempts = status["attempts"].as_u64().expect("a number").to_string();
    assert_eq!(result.header("holdfast-attempts"), Some(attempts.as_str()), "{id}");
    let is_dead = !matches!(outcome.as_str(), "answered" | "cancelled" | "deadline-exceeded");
    assert_eq!(status["state"], if is_dead { "dead" } else { "finished" }, "{id}");
    outcome
}

/// No home but the ends holds anything, nothing is kept beside them, and the operator's tool says the same.
async fn nothing_is_left(fleet: &Fleet, ended: usize) {
    for home in ["pending", "suspects", "delayed", "leased"] {
        assert_eq!(fleet.count(home).await, 0, "{home} is not empty");
    }
    let (finished, dead) = (fleet.count("finished").await, fleet.count("dead").await);
    assert_eq!(finished + dead, ended as i64, "each request has one end");
    assert_eq!(fleet.count("result").await, ended as i64, "each request has one record");
    assert_eq!(fleet.count("ticket").await, ended as i64);
    assert!(fleet.count("request").await <= dead, "bodies are left of what is finished");
    let queues = holdfastctl(fleet, &["queue", "ls", "--queue", "q"]).await;
    let told = &queues[0]["requests"];
    let counts = ["pending", "suspects", "delayed", "leased", "finished", "dead"]
        .map(|home| told[home].as_i64());
    assert_eq!(counts, [0, 0, 0, 0, finished, dead].map(Some), "holdfastctl tells another story");
}

/// No process has panicked so far.
pub(crate) fn nobody_panicked(fleet: &Fleet, roles: &[&Role]) {
    let outputs = roles.iter().map(|role| role.process.output());
    for output in outputs.chain([fleet.producers_output()]) {
        let line = output.lines().find(|line| line.contains("panicked"));
        assert_eq!(line, None, "a process panicked");
    }
}
