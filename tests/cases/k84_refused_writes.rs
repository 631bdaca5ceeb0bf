//! K84: a Redis that answers, and takes no writes.
//!
//! A full disk, or a replica too few: consumers that don't know the error ask again in a tight loop, and what they held
//! is lost to them one by one.

use holdfast_testkit::eventually;

use crate::aftermath;
use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::stage::{self, Api};

/// How often Redis has refused a script so far.
async fn refused(fleet: &Fleet) -> f64 {
    let info = fleet.redis.command(&["INFO", "commandstats"]).await;
    let info = info.text().expect("text").to_owned();
    let line =
        info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap_or_default();
    let field = |name: &str| {
        let value = line.split(',').find_map(|part| part.strip_prefix(name));
        value.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
    };
    field("rejected_calls=") + field("failed_calls=")
}

/// Calls of a process that is asked for nothing, a second: one a loop, each at most twice.
const MOST: f64 = 2.0;

/// A request is in flight while writes are refused; everybody backs off, says so, and goes on afterwards.
async fn writes_are_refused(begin: impl AsyncFnOnce(&Fleet), end: impl AsyncFnOnce(&Fleet)) {
    let fleet =
        stage::fleet(Setup { reclaimer: "every = \"1s\"".to_owned(), ..Setup::default() }).await;
    let (api, worker, reclaimer) = (Api::start(&fleet).await, fleet.worker(), fleet.reclaimer());
    for role in [&worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    fleet.gateway.hold(true);
    let mut ids = stage::ids("k84", 10);
    stage::submit_all(&fleet, &ids).await;
    fleet.gateway.wait_for_arrivals(10, SOON).await.expect("dispatched");
    begin(&fleet).await;
    // The answers come now, and can't be brought home.
    fleet.gateway.hold(false);
    let item =
        format!("{{\"id\":\"new\",\"timeout\":\"10m\",\"payload\":{}}}", stage::payload("new"));
    let answer = api.call(&fleet, "POST", "/v1/queues/q/requests", &item).await.expect("an answer");
    assert_eq!((answer.status, stage::problem_of(&answer).as_str()), (503, "store-read-only"));
    assert!(answer.header("retry-after").is_some());
    for role in [&api.role, &worker, &reclaimer] {
        is_not_ready(&fleet, role).await;
    }
    let (before, lasts) = (refused(&fleet).await, time(20.0));
    pass(lasts).await;
    // Worker: claim, renew, settle. Reclaimer: five scripts a pass.
    let rate = (refused(&fleet).await - before) / lasts.as_secs_f64();
    assert!(rate <= MOST * 8.0, "{rate} calls a second");
    for role in [&worker, &reclaimer] {
        let lines = role.process.output().lines().filter(|line| line.contains("WARN")).count();
        assert!(
            lines <= 12 + lasts.as_secs() as usize,
            "{lines} lines:\n{}",
            role.process.output()
        );
    }
    end(&fleet).await;
    for role in [&api.role, &worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    fleet.submit("new", &stage::payload("new")).await;
    ids.push("new".to_owned());
    let outcomes = aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
    assert_eq!(outcomes, vec!["answered"; ids.len()]);
    for id in &ids {
        let status = fleet.status(id).await;
        assert_eq!(status["lapses"], 0, "{id} was charged for it");
    }
}

/// Sets up the server otherwise.
async fn config(fleet: &Fleet, name: &str, value: &str) {
    let answer = fleet.redis.command(&["CONFIG", "SET", name, value]).await;
    assert_eq!(answer.text(), Some("OK"), "{answer:?}");
}

/// Not ready, with the reason, and alive.
async fn is_not_ready(fleet: &Fleet, role: &Role) {
    eventually("it says why it is not ready", SOON, async || {
        match stage::probe(fleet, role.ops, "readyz").await {
            (503, reasons, _) if reasons.contains("read-only") => Ok(()),
            (status, reasons, _) => Err(format!("{status}: {reasons}")),
        }
    })
    .await;
    assert_eq!(stage::probe(fleet, role.ops, "livez").await.0, 200);
}

/// It can't save to its disk.
async fn without_its_disk() {
    let saved = async |fleet: &Fleet, wanted: &str| {
        fleet.redis.command(&["BGSAVE"]).await;
        eventually("the save has ended", SOON, async || {
            let info = fleet.redis.command(&["INFO", "persistence"]).await;
            let told = format!("rdb_last_bgsave_status:{wanted}");
            if info.text().expect("text").contains(&told) { Ok(()) } else { Err("not yet") }
        })
        .await;
    };
    let begin = async |fleet: &Fleet| {
        config(fleet, "save", "3600 1").await;
        std::fs::create_dir(fleet.redis.dir().join("dump.rdb")).expect("a folder in its way");
        saved(fleet, "err").await;
    };
    let end = async |fleet: &Fleet| {
        std::fs::remove_dir(fleet.redis.dir().join("dump.rdb")).expect("out of its way");
        saved(fleet, "ok").await;
    };
    writes_are_refused(begin, end).await;
}

/// It has fewer replicas than it wants.
async fn without_its_replicas() {
    let begin = async |fleet: &Fleet| config(fleet, "min-replicas-to-write", "1").await;
    let end = async |fleet: &Fleet| config(fleet, "min-replicas-to-write", "0").await;
    writes_are_refused(begin, end).await;
}

/// For the one reason or the other: everybody waits, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn without_its_disk_or_its_replicas_redis_refuses_and_everybody_waits() {
    let _shared = beside_others().await;
    tokio::join!(without_its_disk(), without_its_replicas());
}
