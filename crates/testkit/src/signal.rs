//! Signals to child processes.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends a signal to a process that the caller has not reaped yet.
pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    kill(pid, signal).unwrap_or_else(|err| panic!("{signal} to process {pid}: {err}"));
}

/// Whether this process ignores a signal, as far as the system tells.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}
