//! What strangers do to a Holdfast that runs, by their number and by what they send or do not read. Memory stays bounded, and
//! others are served meanwhile. Each has the machine for itself, since it measures: so they are a program of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod bomb;
mod crowd;
#[allow(dead_code, reason = "shared with other tests, which use the rest of it")]
#[path = "../it/fleet.rs"]
mod fleet;
mod readers;

use std::fs;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

/// Held by each.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// Runs while no other does.
async fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().await
}

/// The memory that a process holds now, in bytes.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kilobytes = line.trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number") * 1024
}

/// Bytes as people read them.
fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

/// Asks one after another, each on a connection of its own, until `until` is over, and once more: how long each took.
async fn asked_meanwhile<T>(
    until: impl Future<Output = T>,
    mut ask: impl AsyncFnMut(usize),
) -> (T, Vec<Duration>) {
    let (mut took, mut over) = (Vec::new(), None);
    let mut until = std::pin::pin!(until);
    loop {
        let (asked, number) = (Instant::now(), took.len());
        {
            let mut asking = std::pin::pin!(ask(number));
            loop {
                tokio::select! {
                    () = asking.as_mut() => break,
                    done = until.as_mut(), if over.is_none() => over = Some(done),
                }
            }
        }
        took.push(asked.elapsed());
        if took.len() >= 20
            && let Some(over) = over.take()
        {
            return (over, took);
        }
    }
}

/// Others were answered within a second; one of twenty may meet a pause of the machine.
fn assert_at_once(took: &[Duration]) {
    const AT_ONCE: Duration = Duration::from_secs(1);
    let late = took.iter().filter(|took| **took >= AT_ONCE).count();
    let slowest = took.iter().max().expect("an answer");
    let few = late <= took.len() / 20 && *slowest < 5 * AT_ONCE;
    assert!(few, "{late} of {} were late, one by {slowest:?}", took.len());
}
