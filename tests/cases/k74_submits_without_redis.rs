//! K74: submits while Redis is away.
//!
//! A queue of commands inside the client makes the caller wait for ever, grows without end, and runs them all after the
//! caller has long given up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_testkit::eventually;

use crate::fleet::{Fleet, SOON, Setup};
use crate::pace::{beside_others, count, full};
use crate::stage::{self, Api};

/// What is submitted under an id. The first ones are small: those reach the server whole, however soon it stops reading.
fn item(number: usize) -> String {
    let (id, pad) = (format!("k74-{number}"), if number < 20 { 0 } else { 2000 });
    let payload = format!("{{\"content\":\"<{id}>\",\"pad\":\"{}\"}}", "x".repeat(pad));
    format!("{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{payload}}}")
}

/// Memory of a process, in KiB.
fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its state");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Submits at a steady rate for a while: each id with what its caller was told.
async fn submit_on(fleet: &Fleet, api: &Api, lasts: Duration) -> BTreeMap<String, String> {
    let (begun, rate) = (Instant::now(), count(200, 50));
    let submits = (0..).map_while(|number| {
        let due = Duration::from_secs_f64(number as f64 / rate as f64);
        (due < lasts).then_some((number, begun + due))
    });
    let calls = submits.map(|(number, due)| async move {
        tokio::time::sleep_until(due.into()).await;
        let (id, item) = (format!("k74-{number}"), item(number));
        let asked = Instant::now();
        let answer =
            api.call(fleet, "POST", "/v1/queues/q/requests", &item).await.expect("an answer");
        assert_eq!(answer.status, 503, "{}", answer.text());
        let again: u64 =
            answer.header("retry-after").expect("when to come again").parse().expect("seconds");
        assert!((1..=120).contains(&again));
        (id, stage::problem_of(&answer), asked.elapsed())
    });
    let told = stage::all(calls).await;
    // Soon, each of them; in a short run, with other tests beside it, a pause of the machine may meet some.
    let slow: Vec<_> = told.iter().filter(|(.., took)| *took >= Duration::from_secs(4)).collect();
    let (few, most) = if full() { (0, 4) } else { (told.len() / 10, 12) };
    let all_soon = told.iter().all(|(.., took)| *took < Duration::from_secs(most));
    assert!(slow.len() <= few && all_soon, "{} of {}: {slow:?}", slow.len(), told.len());
    told.into_iter().map(|(id, problem, _)| (id, problem)).collect()
}

/// Frozen, or gone: each caller is told soon, memory stays, and what was refused does not run afterwards.
async fn redis_is_away(frozen: bool) {
    let fleet = stage::fleet(Setup::default()).await;
    let (api, worker) = (Api::start(&fleet).await, fleet.worker());
    fleet.ready(worker.ops).await;
    // Once before: a script that the server does not know yet can't run late.
    let first = api.call(&fleet, "POST", "/v1/queues/q/requests", &item(1_000_000)).await;
    assert_eq!(first.expect("an answer").status, 202);
    let before = memory_of(api.role.process.pid());
    if frozen {
        fleet.redis.pause();
    } else {
        fleet.redis.kill().await;
    }
    let told = submit_on(&fleet, &api, Duration::from_secs(if full() { 60 } else { 6 })).await;
    let grown = memory_of(api.role.process.pid()).saturating_sub(before);
    assert!(grown < 64 << 10, "it grew by {grown} KiB");
    if frozen {
        fleet.redis.resume();
    } else {
        fleet.redis.restart().await;
    }
    eventually("submits are taken again", SOON, async || {
        let item = "{\"id\":\"after\",\"timeout\":\"10m\",\"payload\":{\"content\":\"<after>\"}}";
        match api
            .call(&fleet, "POST", "/v1/queues/q/requests", item)
            .await
            .map(|answer| answer.status)
        {
            Ok(200 | 202) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(fleet.result("after").await.0, "answered");
    fleet.wait_for_count("pending", 0, SOON).await;
    fleet.wait_for_count("leased", 0, SOON).await;
    for (id, problem) in &told {
        let arrived = fleet.arrivals_of(&format!("<{id}>")).len();
        match problem.as_str() {
            // It may have happened, at most once.
            "outcome-unknown" => assert!(arrived <= 1, "{id} ran {arrived} times"),
            "store-unreachable" | "overloaded" => {
                assert_eq!(arrived, 0, "{id} was refused, and ran")
            }
            other => panic!("{id} was told {other}"),
        }
    }
    if frozen {
        let ran = told.keys().filter(|id| !fleet.arrivals_of(&format!("<{id}>")).is_empty());
        assert!(ran.count() > 0, "nothing that was sent has run: nothing was tried");
    }
    the_unknown_may_be_repeated(&fleet, &told).await;
}

/// Whoever was told "unknown" says it again, and it has happened once.
async fn the_unknown_may_be_repeated(fleet: &Fleet, told: &BTreeMap<String, String>) {
    for id in
        told.iter().filter(|(_, problem)| *problem == "outcome-unknown").map(|(id, _)| id).take(20)
    {
        let number = id.rsplit('-').next().and_then(|it| it.parse().ok()).expect("a number");
        let answer = fleet.post(&item(number)).await;
        assert!(matches!(answer.status, 200 | 202), "{id}: {}", answer.text());
        assert_eq!(fleet.result(id).await.0, "answered");
        assert_eq!(fleet.arrivals_of(&format!("<{id}>")).len(), 1, "{id}");
    }
}

/// It hangs, its connections standing; and, elsewhere, it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn while_redis_hangs_or_is_gone_every_submit_is_told_so_soon() {
    let _shared = beside_others().await;
    tokio::join!(redis_is_away(true), redis_is_away(false));
}
