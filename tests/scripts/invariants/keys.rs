//! 14: all keys that a script touches are among its KEYS, and share one slot.

use std::collections::BTreeSet;

use holdfast_core::script;

use crate::fixture::{Monitor, Seen, Shard, header_keys, tour};

/// One run of a script: its name, its KEYS, and what it touched.
struct Run {
    name: &'static str,
    keys: Vec<String>,
    touched: Vec<(String, String)>,
}

fn runs(seen: &[Seen]) -> Vec<Run> {
    let scripts = script::all();
    let mut runs: Vec<Run> = Vec::new();
    for one in seen {
        if one.in_script {
            let run = runs.last_mut().expect("a script runs within a call");
            if one.command() != "TIME" {
                run.touched.push((one.command(), one.text(1)));
            }
        } else if one.command() == "EVALSHA" {
            let script = scripts.iter().find(|script| script.sha1 == one.text(1));
            let script = script.expect("one of ours");
            let count: usize = one.text(2).parse().unwrap();
            let keys = (3..3 + count).map(|at| one.text(at)).collect();
            runs.push(Run { name: script.name, keys, touched: Vec::new() });
        }
    }
    runs
}

/// The part of a key that decides its slot.
fn tag(key: &str) -> &str {
    key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag)
}

#[tokio::test]
async fn all_keys_of_every_call_share_one_hash_tag_and_none_is_touched_beside_them() {
    let shard = Shard::start().await;
    let mut monitor = Monitor::start(&shard.server).await;
    tour(&shard).await;
    let runs = runs(&monitor.seen(&shard.server).await);
    for run in &runs {
        let tags: BTreeSet<&str> = run.keys.iter().map(|key| tag(key)).collect();
        assert_eq!(tags.len(), 1, "{}: {:?}", run.name, run.keys);
        for (command, key) in &run.touched {
            assert!(run.keys.contains(key), "{}: {command} {key} is not in KEYS", run.name);
        }
    }
    let all: BTreeSet<&str> = script::all().iter().map(|script| script.name).collect();
    let ran: BTreeSet<&str> = runs.iter().map(|run| run.name).collect();
    // A policy is written before the tour, and only looked at on it.
    assert_eq!(ran, all, "the tour runs every script");
}

#[tokio::test]
async fn the_typed_calls_send_the_keys_in_the_order_that_the_headers_say() {
    let shard = Shard::start().await;
    let mut monitor = Monitor::start(&shard.server).await;
    tour(&shard).await;
    let scripts = script::all();
    for run in runs(&monitor.seen(&shard.server).await) {
        let script = scripts.iter().find(|script| script.name == run.name).unwrap();
        if run.name != "register" {
            assert_eq!(run.keys, header_keys(&shard.keys, script), "{}", run.name);
        }
    }
}
