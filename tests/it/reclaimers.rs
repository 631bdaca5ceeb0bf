//! Many reclaimers at once: the work is shared, and done once.

use std::time::Duration;

use holdfast_testkit::{RedisServer, eventually};

use crate::fleet::{Fleet, SOON, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn two_reclaimers_give_back_2000_lapsed_leases_once_each() {
    let worker = "concurrency = 2000\nlease = \"2s\"\nrenew = \"600ms\"\ndrain = \"5s\"".to_owned();
    let setup = Setup { worker, reclaimer: "every = \"100ms\"".to_owned(), ..Setup::default() };
    let fleet = Fleet::with(setup, RedisServer::start().await).await;
    let reclaimers = [fleet.reclaimer(), fleet.reclaimer()];
    for reclaimer in &reclaimers {
        fleet.ready(reclaimer.ops).await;
    }
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker();
    let ids: Vec<String> = (0..2000).map(|number| format!("r{number}")).collect();
    for some in ids.chunks(100) {
        let posts = some.iter().map(|id| fleet.submit(id, "{\"content\":\"x\"}"));
        futures_join(posts).await;
    }
    fleet.gateway.wait_for_arrivals(2000, SOON).await.expect("all in flight");
    fleet.wait_for_count("leased", 2000, SOON).await;
    doomed.process.kill();

    fleet.wait_for_count("pending", 2000, SOON).await;
    assert_eq!(fleet.count("leased").await, 0);
    let mut given_back = 0.0;
    eventually("the reclaimers have counted", SOON, async || {
        given_back = 0.0;
        for reclaimer in &reclaimers {
            given_back += fleet.metric(reclaimer, "holdfast_redeliveries_total", "").await;
        }
        if given_back >= 2000.0 { Ok(()) } else { Err(format!("{given_back} given back")) }
    })
    .await;
    assert_eq!(given_back, 2000.0, "each lease is taken back by one of them");
    for id in ids.iter().step_by(97) {
        let status = fleet.status(id).await;
        assert_eq!((&status["lapses"], &status["state"]), (&1.into(), &"pending".into()), "{id}");
    }
}

/// Waits for all of them at once.
async fn futures_join<F: Future<Output = ()>>(all: impl Iterator<Item = F>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reclaimer_finds_queues_in_the_registry() {
    let fleet = Fleet::start().await;
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker();
    fleet.submit("r0", "{\"content\":\"x\"}").await;
    fleet.gateway.wait_for_arrivals(1, SOON).await.expect("dispatched");
    doomed.process.kill();
    // A reclaimer whose settings know no queue at all.
    let ops = holdfast_testkit::free_port();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("reclaimer.toml");
    let text = format!(
        "[redis]\nurl = \"{}\"\n[reclaimer]\nops_listen = \"127.0.0.1:{ops}\"\nevery = \"200ms\"\n[worker]\nlease = \"3s\"\n",
        fleet.redis.url()
    );
    std::fs::write(&path, text).expect("a settings file");
    let arguments = [std::path::PathBuf::from("--config"), path];
    let program = env!("CARGO_BIN_EXE_it-reclaimer");
    let _reclaimer = holdfast_testkit::Process::start(program, &arguments, &[]);
    fleet.wait_for_count("pending", 1, Duration::from_secs(15)).await;
    assert_eq!(fleet.status("r0").await["lapses"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_request_is_lost_does_not_hold_up_the_others() {
    let fleet = Fleet::start().await;
    fleet.gateway.hold(true);
    let mut doomed = fleet.worker();
    for number in 0..5 {
        fleet.submit(&format!("k06-{number}"), "{\"content\":\"x\"}").await;
    }
    fleet.gateway.wait_for_arrivals(5, SOON).await.expect("dispatched");
    doomed.process.kill();
    let keys = match fleet.redis.command(&["HKEYS", "hf1:{q/0}:request"]).await {
        holdfast_testkit::Value::Array(keys) => keys,
        other => panic!("{other:?}"),
    };
    if let holdfast_testkit::Value::Bytes(key) = &keys[0] {
        fleet.redis.command(&[&b"HDEL"[..], b"hf1:{q/0}:request", key]).await;
    }
    let _reclaimer = fleet.reclaimer();
    fleet.wait_for_count("pending", 4, SOON).await;
    fleet.wait_for_count("dead", 1, SOON).await;
    let mut outcomes = Vec::new();
    for number in 0..5 {
        let answer = fleet.result_now(&format!("k06-{number}")).await;
        outcomes.push(answer.header("holdfast-outcome").map(str::to_owned));
    }
    let unusable = outcomes.iter().flatten().filter(|outcome| *outcome == "unusable").count();
    assert_eq!(unusable, 1, "{outcomes:?}");
}
