//! Operators' commands straight at Redis, where there is no producer to ask.

use holdfast_testkit::RedisServer;
use holdfast_testkit::stand_in::Rule;
use serde_json::Value;

use super::{Ran, ctl, producer};
use crate::fleet::{Fleet, SOON, Setup};

/// A fleet whose only producer was killed after these requests were submitted, or ended where they are to die.
async fn without_api(setup: Setup, rules: Vec<Rule>, ids: &[&str], die: bool) -> Fleet {
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let mut producer = producer(&fleet).await;
    fleet.gateway.script(rules).expect("rules");
    let worker = die.then(|| fleet.worker());
    for id in ids {
        fleet.submit(id, &format!("{{\"content\":\"{id}\"}}")).await;
        if worker.is_some() {
            fleet.result(id).await;
        }
    }
    producer.process.kill();
    fleet
}

/// Runs the tool on a fleet's Redis.
async fn at(fleet: &Fleet, arguments: &[&str]) -> Ran {
    ctl(&[arguments, &["--redis", fleet.redis.url()]].concat()).await
}

/// What it prints as JSON.
async fn json(fleet: &Fleet, arguments: &[&str]) -> Value {
    at(fleet, &[arguments, &["--output", "json"]].concat()).await.exited(0).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_and_limited_and_why_says_so() {
    let setup = Setup { queue: "shards = 2".to_owned(), ..Setup::default() };
    let fleet = without_api(setup, Vec::new(), &["a", "b", "c"], false).await;
    let told = json(&fleet, &["queue", "pause", "q", "--dry-run"]).await;
    assert_eq!((&told["outcome"], &told["pending"]), (&"dry-run".into(), &3.into()));
    assert_eq!(json(&fleet, &["why", "a", "--queue", "q"]).await["hold"], "no-worker");

    let paused = at(&fleet, &["queue", "pause", "q", "--as", "kim"]).await.exited(0);
    assert!(paused.text().contains("no (version 0) -> yes (version 1)"), "{}", paused.text());
    let audit =
        "audit: who=kim action=pause queue=q filter=\"all shards\" matched=2 changed=2 outcome=set";
    assert!(paused.stderr.contains(audit), "{}", paused.stderr);
    let why = at(&fleet, &["why", "a", "--queue", "q"]).await.exited(0);
    assert!(why.text().contains("Queue q is paused by an operator"), "{}", why.text());
    let resume = format!("holdfastctl queue resume --redis {} q.", fleet.redis.url());
    assert!(why.text().contains(&resume), "{}", why.text());

    // The same word again is done already, whatever its operator has seen; another one is late.
    let again = json(&fleet, &["queue", "pause", "q", "--version", "0"]).await;
    assert_eq!(again["outcome"], "already");
    let late = at(&fleet, &["queue", "resume", "q", "--version", "0"]).await.exited(1);
    assert!(late.stderr.contains("the override has version 1 now"), "{}", late.stderr);
    json(&fleet, &["queue", "resume", "q"]).await;
    let limited = json(&fleet, &["queue", "limit", "q", "5"]).await;
    assert_eq!(limited["after"]["limit"], serde_json::json!({"value": 5, "version": 1}));
    let shown = json(&fleet, &["queue", "ls"]).await;
    assert_eq!((&shown[0]["limit"], &shown[0]["paused"]), (&5.into(), &false.into()));
    let small = at(&fleet, &["queue", "limit", "q", "1"]).await.exited(1);
    assert!(small.stderr.contains("at least 2"), "{}", small.stderr);
    let cleared = json(&fleet, &["queue", "limit", "q", "--clear"]).await;
    assert_eq!(cleared["after"]["limit"]["value"], Value::Null);
    let nowhere = at(&fleet, &["queue", "pause", "nowhere"]).await.exited(1);
    assert!(
        nowhere.stderr.contains("no queue nowhere is registered; there is q"),
        "{}",
        nowhere.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_off_is_pulled_forward_and_a_lease_is_ended() {
    let rules = vec![Rule::new().status(503).header("retry-after", "200")];
    let fleet = Fleet::with(Setup::default(), RedisServer::start().await).await;
    fleet.gateway.script(rules).expect("rules");
    let _worker = fleet.worker_with(&[("HOLDFAST_WORKER_NAME", "gpu-7")]);
    fleet.submit("a", "{}").await;
    fleet.wait_for_count("delayed", 1, SOON).await;
    let why = json(&fleet, &["why", "a", "--queue", "q"]).await;
    assert_eq!((&why["hold"], &why["last_failure"]["status"]), (&"back-off".into(), &503.into()));

    fleet.gateway.script(Vec::new()).expect("no rules");
    fleet.gateway.hold(true);
    let due = why["next_try_at"].to_string();
    let moved = json(&fleet, &["retry-now", "a", "--queue", "q", "--due", &due]).await;
    assert_eq!(moved["outcome"], "moved");
    fleet.gateway.wait_for_arrivals(2, SOON).await.expect("it runs again");
    let why = json(&fleet, &["why", "a", "--queue", "q"]).await;
    assert!(
        why["sentence"].as_str().expect("text").starts_with("Worker gpu-7 has worked on attempt 2"),
        "{why}"
    );
    let late = at(&fleet, &["retry-now", "a", "--queue", "q", "--due", &due]).await.exited(1);
    assert!(late.stderr.contains("it is leased, not delayed"), "{}", late.stderr);

    let fence = why["lease"]["fence"].as_str().expect("a fence").to_owned();
    let other = "0".repeat(32);
    let other = at(&fleet, &["lease", "release", "a", "--queue", "q", "--fence", &other]).await;
    assert!(other.exited(1).stderr.contains("outcome=not-applicable"));
    let ended = json(&fleet, &["lease", "release", "a", "--queue", "q", "--fence", &fence]).await;
    assert_eq!(ended["outcome"], "returned");
    // Its worker hears that the lease is lost, and whoever claims it next answers it.
    fleet.gateway.wait_for_arrivals(3, SOON).await.expect("it runs once more");
    fleet.gateway.hold(false);
    assert_eq!(fleet.result("a").await.0, "answered");
    let workers = at(&fleet, &["worker", "ls"]).await.exited(0);
    assert!(
        workers.text().lines().nth(1).expect("a row").starts_with("gpu-7"),
        "{}",
        workers.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_counted_shown_and_run_again_only_with_yes() {
    let setup = Setup { queue: "max_attempts = 1".to_owned(), ..Setup::default() };
    let cut = vec![Rule::new().cut_after(0)];
    let fleet = without_api(setup, cut, &["a", "b", "c"], true).await;
    let shown = json(&fleet, &["dead", "show", "a", "--queue", "q"]).await;
    assert_eq!((&shown["outcome"], &shown["has_body"]), (&"gave-up".into(), &true.into()));
    let filter = ["dead", "redrive", "--outcome", "gave-up", "--queue", "q"];
    let counted = at(&fleet, &filter).await.exited(1);
    assert!(
        counted.stderr.contains("nothing was changed: --yes runs these 3 again"),
        "{}",
        counted.stderr
    );
    at(&fleet, &[&filter[..], &["--dry-run"]].concat()).await.exited(0);
    assert_eq!(fleet.count("dead").await, 3);

    let one = at(&fleet, &["dead", "redrive", "b", "--queue", "q", "--yes"]).await.exited(0);
    assert!(
        one.stderr.contains("filter=\"tenant=default ids=1\" matched=1 changed=1 outcome=done"),
        "{}",
        one.stderr
    );
    for how in ["--yes", "--dry-run"] {
        let again = at(&fleet, &["dead", "redrive", "b", "--queue", "q", how]).await.exited(1);
        let told = "it is no dead letter of tenant default in queue q; --tenant names another";
        assert!(again.stderr.contains(told), "{}", again.stderr);
        let both = ["dead", "redrive", "b", "x", "--queue", "q", "--tenant", "default", how];
        let both = at(&fleet, &both).await.exited(1);
        let told = "holdfastctl: none is a dead letter of tenant default in queue q\n";
        assert!(both.stderr.contains(told), "{}", both.stderr);
    }
    at(&fleet, &["dead", "redrive", "a", "b", "--queue", "q", "--dry-run"]).await.exited(0);
    let rest = json(&fleet, &[&filter[..], &["--yes"]].concat()).await;
    assert_eq!((&rest["redriven"], &rest["matched"]), (&2.into(), &2.into()));
    assert_eq!(fleet.count("dead").await, 0);
    assert_eq!(fleet.count("pending").await, 3);
    let none = at(&fleet, &["dead", "redrive", "--queue", "q", "--yes"]).await.exited(2);
    assert!(none.stderr.contains("required"), "{}", none.stderr);
    let wrong = at(&fleet, &["dead", "ls", "--outcome", "answered"]).await.exited(1);
    assert!(wrong.stderr.contains("outcome must be gave-up"), "{}", wrong.stderr);
}
