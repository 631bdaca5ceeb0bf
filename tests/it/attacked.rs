//! What strangers do to a Holdfast that runs: crowds, bombs, and strings in Redis that somebody rewrote. Memory stays
//! bounded, nothing of a prompt is told, and others are served meanwhile.

mod bomb;
mod crowd;
mod hostile;

use std::fs;

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
