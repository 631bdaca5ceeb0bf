//! K90 on a Cluster: keys in other slots, or not declared. And of K78: a primary of a Cluster dies.
//!
//! Scripts that make up keys work on one server and are refused on a Cluster, or reach the wrong node. A Cluster takes long
//! to form, so that one test does all that needs one.

use std::time::{Duration, Instant};

use holdfast_testkit::stand_in::Rule;
use holdfast_testkit::{Cluster, Process, RedisServer, Value, eventually};

use crate::callers::{Accepted, Callers};
use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::{beside_others, pass, time};
use crate::users::Users;
use crate::{aftermath, stage};

/// Writes must succeed again so soon after a promotion. What is asked for is 30 s; this is what we hold ourselves to.
const BACK: Duration = Duration::from_secs(20);

/// Queues and the slot of each of their shards: all three primaries have some.
const QUEUES: [(&str, u32); 4] = [("q", 1), ("r", 1), ("u", 1), ("wide", 4)];

/// Queues whose answers wait for a replica: of these nothing may be lost.
const SAFE: [&str; 3] = ["q", "r", "wide"];

async fn fleet(cluster: &Cluster, users: &Users) -> Fleet {
    let safe = "durability = \"replicated\"\nreplicas = 1";
    let of =
        |name: &str, rest: &str| format!("[queues.{name}]\ntarget = \"{{gateway}}\"\n{rest}\n");
    let more = [of("r", safe), of("u", ""), of("wide", &format!("shards = 4\n{safe}"))].concat();
    let url = Some(cluster.url());
    let setup = Setup {
        redis_url: url,
        redis: users.lines(),
        queue: safe.to_owned(),
        more,
        ..Setup::default()
    };
    // Its own server stays unused.
    Fleet::with(setup, RedisServer::start().await).await
}

async fn submit(fleet: &Fleet, queue: &str, id: &str, timeout: &str) {
    let payload = stage::payload(id);
    let item = format!("{{\"id\":\"{id}\",\"timeout\":\"{timeout}\",\"payload\":{payload}}}");
    let path = format!("/v1/queues/{queue}/requests");
    let answer = fleet.call("POST", &path, item.as_bytes()).await;
    assert_eq!(answer.status, 202, "{queue}: {id}: {}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_queue_works_on_a_cluster_while_slots_move_and_a_primary_dies() {
    let _shared = beside_others().await;
    let cluster = Cluster::start().await;
    // They may do no more than they must.
    let nodes: Vec<&RedisServer> = (0..cluster.len()).map(|node| cluster.node(node)).collect();
    let users = Users::of_deploy(&nodes, &["+cluster|slots", "+cluster|info"]).await;
    let fleet = fleet(&cluster, &users).await;
    let (mut doomed, reclaimer) = (fleet.worker(), fleet.reclaimer());
    for role in [&doomed, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    undeclared_keys_are_refused(&cluster).await;
    spread_over_all_primaries(&cluster).await;
    the_main_job(&fleet, &mut doomed).await;
    let worker = fleet.worker();
    fleet.ready(worker.ops).await;
    every_queue_is_listed(&fleet, &reclaimer).await;

    let names = QUEUES.map(|(name, _)| name);
    let callers = Callers::start(&fleet, &names, Duration::from_millis(20));
    a_slot_moves(&cluster, &callers).await;
    let dead = a_primary_dies(&cluster, &callers, &names).await;
    // What was accepted can only be as safe again once there is a replica again.
    cluster.node(dead).restart().await;
    let since = Instant::now();
    let took = callers.heard_since(&names, since, BACK).await;
    eprintln!(
        "all queues, also the replicated ones, accept again {took:?} after a replica is back"
    );
    pass(time(4.0)).await;
    let accepted = callers.stop().await;
    all_end(&fleet, &accepted).await;
    for role in [&worker, &reclaimer] {
        fleet.ready(role.ops).await;
    }
    aftermath::nobody_panicked(&fleet, &[&worker, &reclaimer]);
}

/// The Cluster is one that would refuse a script with a key that it does not name.
async fn undeclared_keys_are_refused(cluster: &Cluster) {
    let key = "hf1:{q/0}:meta";
    let node = cluster.node(cluster.owner_of(cluster.slot_of(key).await).await);
    let script = "#!lua\nreturn redis.call('HLEN', 'hf1:{q/1}:meta')";
    let told = node.command(&["EVAL", script, "1", key]).await;
    assert!(
        matches!(&told, Value::Error(text) if text.contains("non local key") || text.contains("same slot")),
        "{told:?}"
    );
}

async fn spread_over_all_primaries(cluster: &Cluster) {
    let mut owners = std::collections::BTreeSet::new();
    for (queue, shards) in QUEUES {
        for shard in 0..shards {
            let slot = cluster.slot_of(&format!("hf1:{{{queue}/{shard}}}:meta")).await;
            owners.insert(cluster.owner_of(slot).await);
        }
    }
    assert_eq!(owners.len(), 3, "one node has all of it");
}

/// Answered, retried, cancelled, too late, given back after its worker was killed: in every queue.
async fn the_main_job(fleet: &Fleet, doomed: &mut Role) {
    let rules =
        QUEUES.map(|(queue, _)| Rule::on_body(&format!("<{queue}-again>")).times(1).status(503));
    let hangs = Rule::on_body("-stopped>").hang();
    fleet.gateway.script(rules.into_iter().chain([hangs]).collect()).expect("rules");
    for (queue, shards) in QUEUES {
        for id in stage::ids(&format!("{queue}-plain"), 4 * shards as usize) {
            submit(fleet, queue, &id, "10m").await;
        }
        submit(fleet, queue, &format!("{queue}-again"), "10m").await;
        submit(fleet, queue, &format!("{queue}-stopped"), "10m").await;
    }
    for (queue, shards) in QUEUES {
        for id in stage::ids(&format!("{queue}-plain"), 4 * shards as usize) {
            assert_eq!(
                stage::outcome(fleet, queue, &id).await.as_deref(),
                Some("answered"),
                "{id}"
            );
        }
        let id = format!("{queue}-again");
        assert_eq!(stage::outcome(fleet, queue, &id).await.as_deref(), Some("answered"), "{id}");
        let id = format!("{queue}-stopped");
        fleet.call("DELETE", &format!("/v1/queues/{queue}/requests/{id}"), b"").await;
        assert_eq!(stage::outcome(fleet, queue, &id).await.as_deref(), Some("cancelled"), "{id}");
    }

    fleet.gateway.hold(true);
    let before = fleet.gateway.counts().arrived;
    for (queue, _) in QUEUES {
        submit(fleet, queue, &format!("{queue}-outlives"), "10m").await;
    }
    fleet.gateway.wait_for_arrivals(before + 4, SOON).await.expect("under way");
    doomed.process.kill();
    fleet.gateway.hold(false);
    for (queue, _) in QUEUES {
        submit(fleet, queue, &format!("{queue}-late"), "1s").await;
        let id = format!("{queue}-late");
        assert_eq!(
            stage::outcome(fleet, queue, &id).await.as_deref(),
            Some("deadline-exceeded"),
            "{id}"
        );
    }
    let heir = fleet.worker();
    fleet.ready(heir.ops).await;
    for (queue, _) in QUEUES {
        let id = format!("{queue}-outlives");
        assert_eq!(stage::outcome(fleet, queue, &id).await.as_deref(), Some("answered"), "{id}");
    }
}

/// The tool, the API and the metrics see queues of all nodes.
async fn every_queue_is_listed(fleet: &Fleet, reclaimer: &Role) {
    let told = stage::holdfastctl(fleet, &["queue", "ls"]).await;
    let told = told.as_array().expect("a list");
    for (queue, shards) in QUEUES {
        let row = told.iter().find(|row| row["queue"] == queue || row["name"] == queue);
        let row = row.unwrap_or_else(|| panic!("{queue} is not in {told:?}"));
        let ended = row["requests"]["finished"].as_u64().expect("a count");
        assert!(ended >= 4 * u64::from(shards), "{row}");
        let label = format!("queue=\"{queue}\",state=\"finished\"");
        eventually("the metric counts them", SOON, async || {
            match fleet.metric(reclaimer, "holdfast_queue_requests", &label).await {
                count if count == ended as f64 => Ok(()),
                count => Err(format!("{queue}: {count} of {ended}")),
            }
        })
        .await;
    }
    let arguments = ["doctor", "--redis", fleet.redis_url()];
    let told = Process::run(env!("CARGO_BIN_EXE_it-holdfastctl"), &arguments, &[]).await;
    assert!(told.status.success(), "{}{}", told.stdout, told.stderr);
}

/// There and back, key by key. Half-way, and when all keys are there but the slot is still here, its queue must wait; all
/// others go on.
async fn a_slot_moves(cluster: &Cluster, callers: &Callers) {
    let slot = cluster.slot_of("hf1:{q/0}:meta").await;
    let home = cluster.owner_of(slot).await;
    for to in [(home + 1) % 3, home] {
        cluster.begin_move(slot, to).await;
        for keys in [3, usize::MAX] {
            cluster.move_keys(slot, to, keys).await;
            pass(time(4.0)).await;
            let took = callers.heard_since(&["r", "u", "wide"], Instant::now(), BACK).await;
            eprintln!("other queues accept {took:?} later, while the slot is on its way");
        }
        cluster.end_move(slot, to).await;
        let took = callers.heard_since(&["q"], Instant::now(), BACK).await;
        eprintln!("its queue accepts again {took:?} after its slot has moved");
    }
}

/// The node with the slot of `q` and `u` is killed, and replaced by its replica.
async fn a_primary_dies(cluster: &Cluster, callers: &Callers, names: &[&str]) -> usize {
    let slot = cluster.slot_of("hf1:{q/0}:meta").await;
    let dead = cluster.owner_of(slot).await;
    let killed = Instant::now();
    cluster.node(dead).kill().await;
    cluster.promoted(slot, dead, SOON).await;
    eprintln!("promoted {:?} after the kill", killed.elapsed());
    let promoted = Instant::now();
    // What waits for a replica has to wait for one where there is none.
    let plain: Vec<&str> =
        names.iter().copied().filter(|name| !["q", "wide"].contains(name)).collect();
    let took = callers.heard_since(&plain, promoted, BACK).await;
    eprintln!("accepted again {took:?} after the promotion");
    dead
}

/// Nothing that was as safe as asked is lost; nothing ends in another way than answered.
async fn all_end(fleet: &Fleet, accepted: &[Accepted]) {
    let mut forgotten = 0;
    for Accepted { queue, id, .. } in accepted {
        match stage::outcome(fleet, queue, id).await.as_deref() {
            Some("answered") => {}
            None if !SAFE.contains(&queue.as_str()) => forgotten += 1,
            other => panic!("{queue}: {id}: {other:?}"),
        }
    }
    eprintln!("{} accepted, {forgotten} of queue u forgotten", accepted.len());
    let told = stage::holdfastctl(fleet, &["queue", "ls"]).await;
    for row in told.as_array().expect("a list") {
        for home in ["pending", "suspects", "leased", "dead"] {
            assert_eq!(row["requests"][home], 0, "{row}");
        }
    }
}
