//! Callers' keys with real processes: a file that can't be used, at the start and later, and keys that nobody tells.

use std::fs;
use std::path::{Path, PathBuf};

use holdfast_testkit::{Process, RedisServer, eventually};
use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{arg, command, ctl, ended};
use crate::fleet::{Fleet, Role, SOON, Setup};

/// A key that `holdfastctl` made, and its line.
struct Made {
    key: String,
    line: String,
}

async fn make(arguments: &[&str]) -> Made {
    let made =
        ctl(&[&["key", "new", "--output", "json"], arguments].concat()).await.exited(0).json();
    let text = |member: &str| made[member].as_str().expect("a text").to_owned();
    Made { key: text("key"), line: text("line") }
}

fn file_of(lines: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    fs::write(&path, lines.join("\n") + "\n").expect("a file");
    (folder, path)
}

/// Redis and gateway, and a producer that reads the keys of this file.
async fn fleet(keys: &Path, more: &str) -> (Fleet, Role) {
    let producer = format!("keys_file = \"{}\"", keys.display());
    let setup = Setup { producer, more: more.to_owned(), ..Setup::default() };
    let fleet = Fleet::without_producer(setup, RedisServer::start().await).await;
    let role = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    fleet.ready(role.ops).await;
    (fleet, role)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_made_by_the_tool_submits_and_reads_and_is_told_by_nobody() {
    let made = make(&["--tenant", "acme", "--scopes", "submit,read", "--name", "ci"]).await;
    let (folder, keys) = file_of(&["# callers", &made.line]);
    let (fleet, mut producer) = fleet(&keys, "[log]\nfilter = \"trace\"").await;
    let _worker = fleet.worker();
    let server = fleet.api("");
    let place = ["--server", &server, "--queue", "q"];
    let body = folder.path().join("body.json");
    fs::write(&body, "{\"a\":1}").expect("a body");
    let holder = folder.path().join("key");
    fs::write(&holder, format!("{}\n", made.key)).expect("a key");

    let submit = ["submit", arg(&body), "--id", "a", "--wait", "--key-file", arg(&holder)];
    ctl(&[&submit[..], &place].concat()).await.exited(0);
    let get = [&["get", "a"][..], &place].concat();
    let with_key = async |arguments: &[&str]| {
        let mut command = command(arguments);
        command.env("HOLDFAST_KEY", &made.key);
        ended(command).await
    };
    let found = with_key(&get).await.exited(0);
    assert!(found.text().contains("finished"), "{}", found.text());
    let bare = ctl(&get).await.exited(1);
    assert!(bare.stderr.contains("unauthorized"), "{}", bare.stderr);
    let cancel = [&["cancel", "a"][..], &place].concat();
    let refused = with_key(&cancel).await.exited(1);
    assert!(refused.stderr.contains("forbidden"), "{}", refused.stderr);

    assert!(producer.process.terminate().await.success());
    let digits = &made.key[4..20];
    for said in [&producer.process.output(), &bare.stderr, &refused.stderr] {
        assert!(!said.contains(digits), "a key was told");
    }
    assert!(
        !fs::read_to_string(&keys).expect("the file").contains(digits),
        "only its hash is kept"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_file_of_keys_is_refused_at_the_start_with_its_lines_and_rules() {
    let made = make(&["--tenant", "acme", "--scopes", "read"]).await;
    let bare = format!("tenant=acme scopes=read sha256={}", made.key);
    let (folder, keys) = file_of(&[&made.line, "# fine", "tenant=acme scopes=all", &bare]);
    let settings = |path: &Path| {
        format!(
            "[producer]\nlisten = \"127.0.0.1:0\"\nkeys_file = \"{}\"\n[queues.q]\ntarget = \"http://127.0.0.1:1\"\n",
            path.display()
        )
    };
    let config = folder.path().join("holdfast.toml");
    for (path, told) in [
        (
            keys.clone(),
            ["must hold callers' keys: line 3 lacks sha256", "line 4 holds a key itself"],
        ),
        (folder.path().join("none"), ["producer.keys_file = ", "can't be read: no such file"]),
    ] {
        fs::write(&config, settings(&path)).expect("settings");
        let program = env!("CARGO_BIN_EXE_it-producer");
        let ran = Process::run(program, &["--config", arg(&config)], &[]).await;
        assert_eq!(ran.status.code(), Some(64), "{}", ran.stderr);
        for part in told {
            assert!(ran.stderr.contains(part), "{}", ran.stderr);
        }
        assert!(!ran.stderr.contains(&made.key[4..20]), "a key was told");
    }
    let listed = ctl(&["key", "ls", arg(&keys)]).await.exited(1);
    assert!(listed.stderr.contains("line 3 lacks sha256"), "{}", listed.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_keys_that_turns_faulty_leaves_the_old_keys_in_force_and_is_told_loudly() {
    let [old, new] = [
        make(&["--tenant", "acme", "--scopes", "read"]).await,
        make(&["--tenant", "acme", "--scopes", "read", "--expires-in", "1h"]).await,
    ];
    let (_folder, keys) = file_of(&[&old.line]);
    let (fleet, producer) = fleet(&keys, "").await;
    let status = async |key: &str| {
        let authorization = format!("Bearer {key}");
        let headers = [("authorization", authorization.as_str())];
        fleet.http.request("GET", &fleet.api("/v1/queues"), &headers, "").await.status
    };
    let stale = async |wanted: f64| {
        eventually("the metric tells it", SOON, async || {
            let label = "file=\"keys_file\"";
            match fleet.metric(&producer, "holdfast_file_stale", label).await {
                value if value == wanted => Ok(()),
                value => Err(value),
            }
        })
        .await;
    };
    stale(0.0).await;
    fs::write(&keys, format!("{}\ntenant=acme\n", new.line)).expect("a faulty file");
    stale(1.0).await;
    assert_eq!((status(&old.key).await, status(&new.key).await), (200, 401));
    let stays = |line: &str| line.contains("stays in force");
    let line = producer.process.wait_for_line(stays, SOON).await;
    let line: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&line["level"], &line["error"]),
        (&"ERROR".into(), &"must hold callers' keys: line 2 lacks scopes".into())
    );

    fs::write(&keys, format!("{}\n", new.line)).expect("a good file");
    stale(0.0).await;
    assert_eq!((status(&old.key).await, status(&new.key).await), (401, 200));
    let listed = ctl(&["key", "ls", arg(&keys), "--output", "json"]).await.exited(0).json();
    assert_eq!((&listed[0]["tenant"], &listed[0]["expired"]), (&"acme".into(), &false.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_not_wait_ends_the_run_and_writes_no_line() {
    let submits = make(&["--tenant", "acme", "--scopes", "submit"]).await;
    let (folder, keys) = file_of(&[&submits.line]);
    let (fleet, _producer) = fleet(&keys, "").await;
    let [lines, out, holder] = ["lines", "out", "key"].map(|name| folder.path().join(name));
    let line = |n| {
        format!(
            "{{\"custom_id\":\"c{n}\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{{}}}}\n"
        )
    };
    fs::write(&lines, (0..5).map(line).collect::<String>()).expect("lines");
    fs::write(&out, "an earlier run\n").expect("an output");
    fs::write(&holder, &submits.key).expect("a key");
    let server = fleet.api("");
    let submit = ["submit", "--file", arg(&lines), "--wait", "--out", arg(&out)];
    let place = ["--queue", "q", "--server", &server, "--key-file", arg(&holder)];
    let ran = ctl(&[&submit[..], &place].concat()).await.exited(1);
    assert!(ran.stderr.contains("forbidden (403)"), "{}", ran.stderr);
    assert!(ran.stderr.contains("stopped early"), "{}", ran.stderr);
    assert!(ran.stderr.contains("5 accepted"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&out).expect("the output"), "an earlier run\n");
}
