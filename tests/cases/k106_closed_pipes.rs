//! K106: output that nobody reads, or that finds no room.
//!
//! `| head` closes the pipe, a disk is full: a tool that panics there tells nothing, and one that says nothing lies.

use std::fs::File;
use std::process::{Command, Stdio};

use holdfast_testkit::Process;

use crate::fleet::{Fleet, Setup};
use crate::pace::{beside_others, count};
use crate::{raw_gateway, stage};

const CTL: &str = env!("CARGO_BIN_EXE_it-holdfastctl");

/// More dead letters than a pipe holds lines of.
async fn many_dead() -> Fleet {
    let setup = Setup { queue: "max_attempts = 1".to_owned(), ..Setup::default() };
    let (fleet, _gateway) = stage::raw(setup, |_| raw_gateway::Answer::ok().cut(0)).await;
    let worker = fleet.worker();
    let ids = stage::ids("k106", count(2_000, 600));
    stage::submit_all(&fleet, &ids).await;
    fleet.wait_for_count("dead", ids.len() as i64, crate::fleet::SOON).await;
    drop(worker);
    fleet
}

/// Ended by whoever left, without a word; a disk that is full is told, and fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_is_no_panic_and_a_full_disk_no_success() {
    let _shared = beside_others().await;
    let fleet = many_dead().await;
    let url = fleet.redis.url();
    for arguments in [
        &["dead", "ls", "--limit", "5000", "--redis", url][..],
        &["dead", "ls", "--limit", "5000", "--output", "json", "--redis", url],
        &["why", "k106-1", "--queue", "q", "--redis", url],
    ] {
        let quoted: Vec<String> = arguments.iter().map(|it| format!("'{it}'")).collect();
        let script = format!("{CTL} {} | head -1; echo ${{PIPESTATUS[0]}}", quoted.join(" "));
        let ran = Process::run("bash", &["-c", &script], &[]).await;
        let code = ran.stdout.lines().last().unwrap_or_default();
        assert!(matches!(code, "0" | "141"), "{arguments:?}: {code} {}", ran.stderr);
        assert!(!ran.stderr.contains("panic") && !ran.stderr.contains("ipe"), "{}", ran.stderr);

        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let mut command = Command::new(CTL);
        command.args(arguments).stdout(full).stderr(Stdio::piped());
        let ran = command.output().expect("a run");
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {told}");
        assert!(told.contains("no storage space"), "{told}");
    }
    for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1"), ("TERM", "xterm-256color")] {
        let ran = Process::run(CTL, &["dead", "ls", "--redis", url], &[(name, value)]).await;
        assert!(ran.status.success(), "{}", ran.stderr);
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{name}={value}");
    }
}
