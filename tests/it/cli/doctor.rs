//! What `doctor` tells of a Redis that it can hardly ask.

use holdfast_testkit::{RedisServer, eventually};
use serde_json::Value;

use super::{Ran, ctl};
use crate::fleet::{Fleet, SOON, Setup};

/// What is told under a name, which is a fault.
fn fault(ran: &Ran, name: &str) -> Value {
    let report = ran.json();
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|it| it["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {report}")).clone();
    assert_eq!(found["grade"], "fault", "{found}");
    found
}

async fn doctor(fleet: &Fleet) -> Ran {
    ctl(&["doctor", "--redis", fleet.redis.url(), "--output", "json"]).await
}

/// A server whose disk takes nothing more: its snapshot can't be put in its place, and from then on it refuses writes.
async fn full(fleet: &Fleet) {
    let dir = fleet.redis.command(&["CONFIG", "GET", "dir"]).await;
    let dir = dir.array().expect("a pair")[1].text().expect("a path").to_owned();
    std::fs::create_dir(std::path::Path::new(&dir).join("dump.rdb")).expect("a folder in its way");
    fleet.redis.command(&["BGSAVE"]).await;
    eventually("it refuses writes", SOON, async || {
        let info = fleet.redis.command(&["INFO", "persistence"]).await;
        let told = info.text().expect("text").contains("rdb_last_bgsave_status:err");
        if told { Ok(()) } else { Err("its snapshot is not done") }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_as_what_it_is() {
    let redis = RedisServer::with(|options| {
        options.args = ["--save", "3600 1"].map(str::to_owned).to_vec();
    });
    let fleet = Fleet::with(Setup::default(), redis.await).await;
    full(&fleet).await;
    let ran = doctor(&fleet).await.exited(3);
    let refused = fault(&ran, "writes-refused");
    assert!(refused["told"].as_str().expect("text").contains("disk"), "{refused}");
    for command in [&["queue", "ls"][..], &["queue", "pause", "q"]] {
        let ran = ctl(&[command, &["--redis", fleet.redis.url()]].concat()).await.exited(1);
        assert!(ran.stderr.contains("can't write to its disk"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("is it up"), "{}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_told_as_one() {
    let fleet = Fleet::start().await;
    fleet.redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let ran = doctor(&fleet).await.exited(3);
    fault(&ran, "replica");
    fault(&ran, "writes-refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_of_another_type_is_a_finding_beside_others() {
    let fleet = Fleet::start().await;
    fleet.redis.command(&["DEL", "hf1:queues"]).await;
    fleet.redis.command(&["SET", "hf1:queues", "junk"]).await;
    let ran = doctor(&fleet).await.exited(3);
    let told = fault(&ran, "shard-unreadable");
    assert_eq!(told["place"], "hf1:queues");
    assert!(told["told"].as_str().expect("text").contains("WRONGTYPE"), "{told}");
    assert!(ran.json()["findings"].as_array().expect("findings").len() > 1, "{:?}", ran.json());
}
