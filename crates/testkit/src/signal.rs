//! Signals to child processes.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends a signal to a process that the caller has not reaped yet.
pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    kill(pid, signal).unwrap_or_else(|err| panic!("{signal} to process {pid}: {err}"));
}
