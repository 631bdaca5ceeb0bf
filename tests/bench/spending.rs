//! What a process takes of the machine, as /proc tells it.

use std::fs;
use std::time::Duration;

/// Processor time of all its threads so far.
pub(crate) fn cpu(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a running process");
    // Its name stands between brackets and may hold anything.
    let (_, fields) = text.rsplit_once(')').expect("a name in brackets");
    let field = |at: usize| fields.split_whitespace().nth(at).and_then(|field| field.parse().ok());
    let ticks: Option<u64> =
        field(11).zip(field(12)).map(|(user, system): (u64, u64)| user + system);
    Duration::from_millis(ticks.expect("two times") * TICK_MS)
}

/// How long a tick of these times is: USER_HZ is 100 on every Linux that we know.
const TICK_MS: u64 = 10;

/// Bytes of memory that it occupies.
pub(crate) fn memory(pid: u32) -> f64 {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:") * 1024.0
}

/// How often its main thread had to let another run.
pub(crate) fn taken_off(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|line| line.trim().parse().ok()).expect("a count")
}

/// Bytes that could be used without putting anything else out.
pub(crate) fn available() -> f64 {
    kilobytes("/proc/meminfo", "MemAvailable:") * 1024.0
}

/// Files that it has open, its connections among them.
pub(crate) fn files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("a running process").count()
}

/// How many it may open.
pub(crate) fn file_limit(pid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).expect("a running process");
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()).expect("a limit").to_owned()
}

fn kilobytes(path: &str, name: &str) -> f64 {
    let text = fs::read_to_string(path).expect("a file of the system");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line by its name");
    let number = line.trim().trim_end_matches(" kB").parse::<f64>();
    number.expect("a size in kB")
}
