//! What strangers do to a Holdfast that runs: crowds, bombs, and strings in Redis that somebody rewrote. Memory stays
//! bounded, nothing of a prompt is told, and others are served meanwhile.

mod bomb;
mod crowd;
mod hostile;
mod readers;

use std::fs;
use std::time::{Duration, Instant};

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
