//! The processor time of a process, as the kernel counts it in ns.

use std::fs;
use std::time::Duration;

/// What all threads of a process have taken so far; those that have ended are not counted.
pub(crate) fn of(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the threads of a process");
    let time = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    // A thread may end between the two reads.
    let times = threads.flatten().filter_map(time);
    Duration::from_nanos(times.sum())
}
