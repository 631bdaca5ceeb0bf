//! A signal as early as it can be: no process dies of one, however little of it has started.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_testkit::{Process, eventually};
use nix::sys::signal::Signal;
use tokio::net::unix::pipe;

use crate::fleet::SOON;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_it-holdfast");

/// Settings with which every role starts, and finds neither Redis nor gateway.
#[cfg(target_os = "linux")]
const SETTINGS: &str = r#"
redis = { url = "redis://127.0.0.1:1", command_timeout = "50ms" }
producer = { listen = "127.0.0.1:0", operator_listen = "127.0.0.1:0", ops_listen = "127.0.0.1:0" }
worker = { ops_listen = "127.0.0.1:0" }
reclaimer = { ops_listen = "127.0.0.1:0" }
queues = { q = { target = "http://127.0.0.1:1" } }
"#;

/// Every process that runs until a signal.
const PROGRAMS: [(&str, &[&str]); 7] = [
    (env!("CARGO_BIN_EXE_it-producer"), &[]),
    (env!("CARGO_BIN_EXE_it-worker"), &[]),
    (env!("CARGO_BIN_EXE_it-reclaimer"), &[]),
    (HOLDFAST, &["role", "producer"]),
    (HOLDFAST, &["role", "worker"]),
    (HOLDFAST, &["role", "reclaimer"]),
    (HOLDFAST, &["up"]),
];

fn start(program: &str, args: &[&str], settings: &Path) -> Process {
    let settings = settings.to_str().expect("a path");
    Process::start(program, &[args, &["--config", settings]].concat(), &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_while_the_settings_are_read_ends_each_program_with_0() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (program, args)) in PROGRAMS.into_iter().enumerate() {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            let path = folder.path().join(format!("{number}-{signal}"));
            assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
            let mut process = start(program, args, &path);
            // It can be opened once somebody reads it; nothing is ever written to it.
            let held = eventually("the settings are read", SOON, async || {
                pipe::OpenOptions::new().open_sender(&path)
            });
            let held = held.await;
            process.signal(signal);
            let status = process.wait(SOON).await;
            assert_eq!(status.code(), Some(0), "{program} {args:?} {signal}: {status}");
            drop(held);
        }
    }
}

/// What `nohup` does: it goes on when its terminal is gone.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("holdfast.toml");
    fs::write(&path, SETTINGS).expect("settings");
    let nohup = r#"trap '' HUP; exec "$0" "$@""#;
    let (program, settings) = (PROGRAMS[0].0, path.to_str().expect("a path"));
    let mut process = Process::start("/bin/sh", &["-c", nohup, program, "--config", settings], &[]);
    process.wait_for_line(|line| line.contains("\"started\""), SOON).await;
    process.signal(Signal::SIGHUP);
    // What it is told next it obeys; had it heard of the first, this were the second, which does not end with 0.
    assert!(process.terminate().await.success(), "{}", process.output());
    assert!(!process.output().contains("SIGHUP"), "{}", process.output());
}

/// Whether a process catches SIGTERM: the bit of its number in `SigCgt`.
#[cfg(target_os = "linux")]
fn catches_sigterm(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (Signal::SIGTERM as u32 - 1)) != 0)
}

/// Before its first instruction no program can catch a signal; from then on none may kill it.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_in_the_first_moments_ends_each_role_with_0() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("holdfast.toml");
    fs::write(&path, SETTINGS).expect("settings");
    for (program, args) in &PROGRAMS[..3] {
        for round in 0..20 {
            let mut process = start(program, args, &path);
            let until = Instant::now() + SOON;
            while !catches_sigterm(process.pid()) {
                assert!(Instant::now() < until, "{program} never listens: {}", process.output());
                tokio::task::yield_now().await;
            }
            // A little later each time: into the settings, the logs, the start of the services.
            let later = Instant::now() + Duration::from_micros(250 * round);
            while Instant::now() < later {
                tokio::task::yield_now().await;
            }
            process.signal(Signal::SIGTERM);
            let status = process.wait(SOON).await;
            assert_eq!(status.code(), Some(0), "{program}: {status}\n{}", process.output());
        }
    }
}
