//! K83: a result that is gone as soon as it is there.
//!
//! A time to live that is counted from a deadline which has passed is negative, and takes the result with it.

use std::time::Duration;

use holdfast_testkit::Value;

use crate::fleet::{Fleet, Setup};
use crate::pace::{beside_others, pass, time};
use crate::raw_gateway::Answer;
use crate::{aftermath, stage};

/// How long each end is kept from now, in ms.
async fn kept_for(fleet: &Fleet, home: &str) -> Vec<i64> {
    let time = fleet.redis.command(&["TIME"]).await;
    let part = |at: usize| time.array().expect("two parts")[at].int().expect("a number");
    let now = part(0) * 1000 + part(1) / 1000;
    let answer = fleet
        .redis
        .command(&["ZRANGE", &format!("hf1:{{q/0}}:{home}"), "0", "-1", "WITHSCORES"])
        .await;
    let scores = answer.array().expect("members").iter().skip(1).step_by(2);
    scores
        .map(|score| score.text().expect("a score").parse::<i64>().expect("a number") - now)
        .collect()
}

/// Ended late, by its deadline or by its cancel: kept for as long as the settings say, by nothing that runs out by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_for_its_retention_however_late_it_came() {
    let _shared = beside_others().await;
    let queue = "retention = \"10m\"\ndead_retention = \"20m\"\nmax_attempts = 1".to_owned();
    let plan = |asked: &crate::raw_gateway::Asked<'_>| match asked.has("<broken>") {
        true => Answer::raw("no HTTP\r\n"),
        false => Answer::ok().after(time(8.0)),
    };
    let (fleet, _gateway) = stage::raw(Setup { queue, ..Setup::default() }, plan).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let timeout = crate::pace::spelled(time(4.0));
    let late = format!(
        "{{\"id\":\"late\",\"timeout\":\"{timeout}\",\"payload\":{}}}",
        stage::payload("late")
    );
    assert_eq!(fleet.post(&late).await.status, 202);
    for id in ["slow", "broken", "cancelled"] {
        fleet.submit(id, &stage::payload(id)).await;
    }
    fleet.call("DELETE", "/v1/queues/q/requests/cancelled", b"").await;
    let ids = ["late", "slow", "broken", "cancelled"].map(str::to_owned);
    let outcomes = aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
    assert_eq!(outcomes, ["deadline-exceeded", "answered", "gave-up", "cancelled"]);

    for (home, minutes, count) in [("finished", 10, 3), ("dead", 20, 1)] {
        let kept = kept_for(&fleet, home).await;
        assert_eq!(kept.len(), count);
        let (most, least) = (minutes * 60_000, minutes * 60_000 - 30_000);
        assert!(kept.iter().all(|left| (least..=most).contains(left)), "{home}: {kept:?} ms");
    }
    // Several passes of the sweep: they are still there.
    pass(Duration::from_secs(1)).await;
    for id in &ids {
        assert_eq!(fleet.result_now(id).await.status, 200, "{id}");
    }
    no_key_runs_out(&fleet).await;
}

/// No key has a time to live of Redis' own.
async fn no_key_runs_out(fleet: &Fleet) {
    let keys = fleet.redis.command(&["KEYS", "*"]).await;
    let keys: Vec<&[u8]> = keys.array().expect("keys").iter().filter_map(Value::bytes).collect();
    assert!(keys.len() > 5, "{} keys", keys.len());
    for key in keys {
        let left = fleet.redis.command(&[b"TTL".as_slice(), key]).await;
        assert_eq!(left.int(), Some(-1), "{} runs out", String::from_utf8_lossy(key));
    }
}
