//! K32: a batch of which a part fails.
//!
//! A pipeline that is called atomic takes in some items, loses others, and tells one word for all of them.

use holdfast_core::script;
use holdfast_testkit::proxy::evalsha;
use holdfast_testkit::{Fault, When};
use serde_json::Value;

use crate::fleet::{Fleet, Setup};
use crate::pace::{beside_others, count};
use crate::{aftermath, stage};

/// Lines for these ids, each with so much beside its name.
fn lines(ids: &[String], pad: usize) -> String {
    let line = |id: &String| {
        let pad = "x".repeat(pad);
        format!(
            "{{\"id\":\"{id}\",\"timeout\":\"10m\",\"payload\":{{\"content\":\"<{id}>\",\"pad\":\"{pad}\"}}}}\n"
        )
    };
    ids.iter().map(line).collect()
}

fn statuses(told: &[Value]) -> Vec<u64> {
    told.iter().map(|line| line["status"].as_u64().expect("a status")).collect()
}

/// Every item is told by its place; none is missing, none is told twice.
fn each_has_its_line(told: &[Value], ids: &[String]) {
    assert_eq!(told.len(), ids.len());
    for (at, (line, id)) in told.iter().zip(ids).enumerate() {
        assert_eq!(line["index"], at, "{line}");
        if line["status"] == 202 || line["status"] == 200 {
            assert_eq!(line["id"], **id, "{line}");
        } else {
            assert!(line["problem"]["type"].is_string(), "it says why: {line}");
        }
    }
}

/// Everything of the batch runs once.
async fn each_runs_once(fleet: &Fleet, ids: &[String]) {
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    let outcomes = aftermath::of(fleet, ids, &[&worker, &reclaimer]).await;
    assert!(outcomes.iter().all(|outcome| outcome == "answered"));
    assert_eq!(fleet.gateway.counts().arrived as usize, ids.len());
    let mut bodies: Vec<_> = fleet.gateway.arrivals().into_iter().map(|it| it.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), ids.len(), "one ran twice, and another not at all");
}

/// A broken item in the middle, and two ids that are there already, one of them with other bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_item_refuses_itself_and_what_is_there_is_told_so() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let ids = stage::ids("k32a", 5);
    let broken = lines(&ids, 0).replace("\"id\":\"k32a-4\",", "\"id\":\"k32a-4\",\"pay\":1,");
    let told = stage::batch(&fleet, &broken).await;
    assert_eq!(statuses(&told), [202, 202, 202, 400, 202]);
    each_has_its_line(&told, &ids);
    assert_eq!(told[3]["problem"]["type"], "/problems/invalid-item");
    assert_eq!(told[3]["line"], 4);
    assert_eq!(fleet.result_now("k32a-4").await.status, 404, "a refused item is not kept");

    let more = stage::ids("k32b", 2);
    let again = lines(&ids, 0).replace("<k32a-2>", "<other>") + &lines(&more, 0);
    let told = stage::batch(&fleet, &again).await;
    assert_eq!(statuses(&told), [200, 422, 200, 202, 200, 202, 202]);
    assert_eq!(told[1]["problem"]["type"], "/problems/id-reused");
    assert_eq!((&told[0]["replayed"], &told[3]["replayed"]), (&true.into(), &Value::Null));
    each_runs_once(&fleet, &[ids, more].concat()).await;
    assert_eq!(fleet.arrivals_of("<other>").len(), 0);
}

/// The reply to one of the calls that store it is lost, or that call arrives after its repeat.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_reply_is_lost_in_the_middle_is_taken_once() {
    let _shared = beside_others().await;
    for fault in [Fault::LoseReply, Fault::HoldRequest] {
        let (fleet, proxy) = Fleet::behind_proxy().await;
        let submit = script::all().into_iter().find(|it| it.name == "submit").expect("a script");
        let lost = proxy.inject(fault, When::Nth(3), evalsha(&submit.sha1));
        let ids = stage::ids("k32", 1000);
        let told = stage::batch(&fleet, &lines(&ids, 0)).await;
        assert_eq!(lost.fired(), 1);
        each_has_its_line(&told, &ids);
        for line in &told {
            let fits = line["status"] == 202
                || line["status"] == 200
                || line["problem"]["type"] == "/problems/outcome-unknown";
            assert!(fits, "{line}");
        }
        let told = stage::batch(&fleet, &lines(&ids, 0)).await;
        each_has_its_line(&told, &ids);
        assert!(statuses(&told).iter().all(|status| matches!(status, 200 | 202)));
        proxy.release_held().await;
        assert_eq!(fleet.count("pending").await, ids.len() as i64);
        each_runs_once(&fleet, &ids).await;
    }
}

/// Redis has no memory left from somewhere in the middle on: what is told as taken is kept, the rest is not, and the
/// same batch again takes it in.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_fills_redis_says_which_items_are_kept() {
    let _shared = beside_others().await;
    let fleet = stage::fleet(Setup::default()).await;
    let ids = stage::ids("k32m", count(4000, 1000));
    let info = fleet.redis.command(&["INFO", "memory"]).await;
    let info = info.text().expect("text").to_owned();
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a number");
    let used: usize = used.trim().parse().expect("a number");
    let limit = (used + ids.len() * 4096 / 2).to_string();
    fleet.redis.command(&["CONFIG", "SET", "maxmemory", &limit]).await;

    let told = stage::batch(&fleet, &lines(&ids, 4000)).await;
    each_has_its_line(&told, &ids);
    let taken = statuses(&told).iter().filter(|status| **status == 202).count();
    assert!(taken > 0 && taken < ids.len(), "{taken} were taken: it was not filled in the middle");
    for line in told.iter().filter(|line| line["status"] != 202) {
        assert_eq!(
            (&line["status"], &line["problem"]["type"]),
            (&429.into(), &"/problems/store-full".into())
        );
        assert!(line["retry_after"].is_u64(), "{line}");
    }
    assert_eq!(fleet.count("pending").await, taken as i64);
    assert_eq!(fleet.count("request").await, taken as i64, "nothing is left of what was refused");
    assert_eq!(fleet.count("ticket").await, taken as i64);

    fleet.redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    let again = stage::batch(&fleet, &lines(&ids, 4000)).await;
    for (first, second) in statuses(&told).into_iter().zip(statuses(&again)) {
        assert_eq!(second, if first == 202 { 200 } else { 202 });
    }
    each_runs_once(&fleet, &ids).await;
}
