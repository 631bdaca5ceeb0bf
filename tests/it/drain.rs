//! SIGTERM: what ends in time is settled, the rest is handed back at once.

use std::time::{Duration, Instant};

use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{RedisServer, eventually};
use nix::sys::signal::Signal;

use crate::cli::ctl;
use crate::fleet::{Fleet, SOON, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_worker_hands_back_what_does_not_end_in_time() {
    let worker = "concurrency = 64\nlease = \"30s\"\ndrain = \"500ms\"".to_owned();
    let fleet = Fleet::with(Setup { worker, ..Setup::default() }, RedisServer::start().await).await;
    fleet.gateway.hold(true);
    let mut leaving = fleet.worker();
    for number in 0..20 {
        fleet.submit(&format!("r{number}"), "{\"content\":\"x\"}").await;
    }
    fleet.gateway.wait_for_arrivals(20, SOON).await.expect("all in flight");

    let asked = Instant::now();
    assert!(leaving.process.terminate().await.success(), "{}", leaving.process.output());
    // Long before any lease ends, and without a reclaimer: they were handed back.
    assert!(asked.elapsed() < Duration::from_secs(20));
    assert_eq!((fleet.count("leased").await, fleet.count("pending").await), (0, 20));
    let status = fleet.status("r7").await;
    assert_eq!(
        (&status["lapses"], &status["attempts"]),
        (&0.into(), &1.into()),
        "sent once, charged no lapse"
    );

    fleet.gateway.hold(false);
    let _heir = fleet.worker();
    for number in 0..20 {
        assert_eq!(fleet.result(&format!("r{number}")).await.0, "answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_worker_settles_what_ends_in_time() {
    let fleet = Fleet::start().await;
    let slow = Rule { delay_ms: Some(800), ..Rule::default() };
    fleet.gateway.script(vec![slow]).expect("a rule");
    let mut leaving = fleet.worker();
    for number in 0..10 {
        fleet.submit(&format!("r{number}"), "{\"content\":\"x\"}").await;
    }
    fleet.gateway.wait_for_arrivals(10, SOON).await.expect("all in flight");
    assert!(leaving.process.terminate().await.success(), "{}", leaving.process.output());
    assert_eq!((fleet.count("finished").await, fleet.count("leased").await), (10, 0));
    assert_eq!(fleet.gateway.counts().arrived, 10, "each was sent once");
}

/// It tries to hand back for as long as its grace allows: Redis may come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_redis_is_away_stops_in_time() {
    let worker = "drain = \"500ms\"".to_owned();
    let fleet = Fleet::with(Setup { worker, ..Setup::default() }, RedisServer::start().await).await;
    fleet.gateway.hold(true);
    let mut leaving = fleet.worker();
    fleet.submit("r", "{\"content\":\"x\"}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("in flight");
    fleet.redis.kill().await;

    let asked = Instant::now();
    leaving.process.signal(Signal::SIGTERM);
    let status = leaving.process.wait(Duration::from_secs(60)).await;
    assert!(status.success(), "{status}: {}", leaving.process.output());
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_terminal_is_gone_drains_as_on_sigterm() {
    let fleet = Fleet::start().await;
    let slow = Rule { delay_ms: Some(800), ..Rule::default() };
    fleet.gateway.script(vec![slow]).expect("a rule");
    let mut leaving = fleet.worker();
    fleet.submit("r", "{\"content\":\"x\"}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("in flight");
    leaving.process.signal(Signal::SIGHUP);
    let status = leaving.process.wait(SOON).await;
    assert!(status.success(), "{status}: {}", leaving.process.output());
    assert_eq!((fleet.count("finished").await, fleet.count("leased").await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drained_leaves_the_list_of_workers_with_its_end() {
    let fleet = Fleet::start().await;
    let (mut leaving, _staying) =
        (fleet.worker(), fleet.worker_with(&[("HOLDFAST_WORKER_NAME", "stays")]));
    let names = async || -> Vec<String> {
        let at = ["worker", "ls", "--redis", fleet.redis.url(), "--output", "json"];
        let rows = ctl(&at).await.exited(0).json();
        let rows = rows.as_array().expect("a list").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    eventually("both are there", SOON, async || match names().await {
        both if both.len() == 2 => Ok(()),
        others => Err(format!("{others:?}")),
    })
    .await;
    assert!(leaving.process.terminate().await.success(), "{}", leaving.process.output());
    assert_eq!(names().await, ["stays"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_roles_end_at_once() {
    let fleet = Fleet::start().await;
    for mut role in [fleet.worker(), fleet.reclaimer()] {
        fleet.ready(role.ops).await;
        let asked = Instant::now();
        assert!(role.process.terminate().await.success(), "{}", role.process.output());
        assert!(
            asked.elapsed() < Duration::from_secs(8),
            "an idle stop took {:?}",
            asked.elapsed()
        );
    }
}
