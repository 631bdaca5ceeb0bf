//! A disk without room: Redis answers before it writes, and ends when told to, written or not. `up` looks before it tells it.
//!
//! A limit on the size of files stands for the disk: the write fails just so, and it can be lifted.

use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{HOLDFAST, Process, SOON, Up, folder, free_ports, server};

/// Runs what follows so that a file that reaches its limit is an error, and does not kill.
const LIMITED: &str = r#"trap '' XFSZ; exec "$0" "$@""#;
/// Some submits are written before the disk is full.
const ROOM: u64 = 100_000;

async fn start(folder: &Path) -> Up {
    let data = folder.join("data");
    let args = ["-c", LIMITED, HOLDFAST, "up", "--data", data.to_str().unwrap()];
    let args = [&args[..], &["--ops-listen", "127.0.0.1:0"]].concat();
    Up::started(Process::start("/bin/sh", &args, &free_ports())).await
}

/// How much its Redis may write into a file from now on.
fn limit(folder: &Path, bytes: &str) {
    let redis = server(folder).expect("a running redis").to_string();
    let set =
        Command::new("prlimit").args(["--pid", &redis, &format!("--fsize={bytes}:")]).status();
    assert!(set.expect("prlimit, of util-linux").success());
}

/// In Unix seconds.
#[expect(clippy::disallowed_methods, reason = "callers name Unix times")]
fn in_an_hour() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3600
}

impl Up {
    /// Submits what is not due for long, until it is refused; gives the ids of what was accepted.
    async fn fill(&self) -> Vec<String> {
        let url = format!("{}/v1/queues/default/requests", self.api);
        let (later, mut accepted, until) = (in_an_hour(), Vec::new(), Instant::now() + SOON);
        loop {
            assert!(Instant::now() < until, "{} were accepted", accepted.len());
            let id = format!("r{}", accepted.len());
            let body = format!(
                r#"{{"id":"{id}","payload":"{}","not_before":{later},"timeout":"2h"}}"#,
                "x".repeat(9000)
            );
            let headers = [("content-type", "application/json")];
            match self.http.request("POST", &url, &headers, body).await.status {
                202 => accepted.push(id),
                503 if !accepted.is_empty() => return accepted,
                other => panic!("{other} after {}", accepted.len()),
            }
        }
    }

    async fn has(&self, id: &str) -> bool {
        let url = format!("{}/v1/queues/default/requests/{id}", self.api);
        self.http.request("GET", &url, &[], "").await.status == 200
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_a_full_disk_it_waits_for_room_and_loses_nothing() {
    let folder = folder();
    let mut up = start(folder.path()).await;
    limit(folder.path(), &ROOM.to_string());
    let accepted = up.fill().await;
    up.process.signal(nix::sys::signal::Signal::SIGTERM);
    up.process.wait_for_line(|line| line.contains("only in its memory"), SOON).await;
    limit(folder.path(), "unlimited");
    let ended = up.process.wait(SOON).await;
    assert!(ended.success(), "{}", up.process.output());

    let up = start(folder.path()).await;
    for id in accepted {
        assert!(up.has(&id).await, "{id} is lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_on_a_disk_that_stays_full_it_says_what_is_lost_and_fails() {
    let folder = folder();
    let mut up = start(folder.path()).await;
    limit(folder.path(), &ROOM.to_string());
    let accepted = up.fill().await;
    let ended = up.process.terminate().await;
    assert_eq!(ended.code(), Some(1), "{}", up.process.output());
    let told = up.process.output();
    let place = std::fs::canonicalize(folder.path().join("data")).unwrap();
    for words in ["LOST", "only in its memory", place.to_str().unwrap()] {
        assert!(told.contains(words), "{words} is missing in {told}");
    }

    let up = start(folder.path()).await;
    let last = accepted.last().unwrap();
    assert!(!up.has(last).await, "what was told as lost was there: the test shows nothing");
}
