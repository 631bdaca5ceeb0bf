//! Whoever stops reading a role's log stops nothing else.

use std::process::Stdio;

use holdfast_testkit::{Http, eventually, free_port};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::fleet::{Fleet, SOON};

/// More than a pipe and its readers hold: each action leaves a line of a few hundred bytes.
const ACTIONS: usize = 800;

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_stops_neither_health_nor_calls_nor_the_end() {
    let fleet = Fleet::start().await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), fleet.settings("producer", 1)).expect("settings");
    let [api, operators, ops] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let mut unread = Command::new(env!("CARGO_BIN_EXE_it-producer"));
    unread.arg("--config").arg(file.path()).stdout(Stdio::piped()).kill_on_drop(true);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_")) {
        unread.env_remove(name);
    }
    unread.env("HOLDFAST_PRODUCER_LISTEN", &api).env("HOLDFAST_PRODUCER_OPS_LISTEN", &ops);
    unread.env("HOLDFAST_PRODUCER_OPERATOR_LISTEN", &operators);
    let mut unread = unread.spawn().expect("a producer");
    // Held, and never read.
    let _stdout = unread.stdout.take().expect("a pipe");

    let http = Http::new();
    let get = async |path: &str| {
        let url = format!("http://{ops}{path}");
        let answer = tokio::time::timeout(SOON, http.request("GET", &url, &[], ""));
        answer.await.map_or(0, |answer| answer.status)
    };
    eventually("it is ready", SOON, async || {
        let there = tokio::net::TcpStream::connect(&ops).await.is_ok();
        if there && get("/readyz").await == 200 { Ok(()) } else { Err("not yet") }
    })
    .await;
    for number in 0..ACTIONS {
        let action = if number % 2 == 0 { "pause" } else { "resume" };
        let url = format!("http://{operators}/v1/ops/queues/q/{action}");
        let call = http.request("POST", &url, &[("content-type", "application/json")], "{}");
        let answer = tokio::time::timeout(SOON, call).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer to action {number}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(get("/livez").await, 200);

    let pid = unread.id().expect("it runs").try_into().expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it is there");
    let status =
        tokio::time::timeout(SOON, unread.wait()).await.expect("an end").expect("a status");
    assert_eq!(status.code(), Some(0), "{status}");
}
