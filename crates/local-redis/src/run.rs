//! Runs a tool to its end, with a time limit.

use std::io::{self, ErrorKind, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::tied::Tied;

/// How often a binary that was written a moment ago is tried again while somebody still has it open.
const BUSY_TRIES: usize = 50;

/// What the tool printed, or in a few words why it failed.
pub(crate) fn run(mut command: Command, limit: Duration) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let until = Instant::now() + limit;
    let failed = |err: io::Error| format!("can't run {name}: {err}");

    let mut child = start(command).map_err(failed)?;
    let printed = child.child().stdout.take().map(gather);
    let complained = child.child().stderr.take().map(gather);
    let Some(status) = child.wait_within(limit).map_err(failed)? else {
        return Err(format!("{name} did not end within {} s", limit.as_secs()));
    };

    // A grandchild may hold the pipes open: what came until the limit is what counts.
    let text = |pipe: Option<Receiver<String>>| {
        let left = until.saturating_duration_since(Instant::now());
        pipe.and_then(|pipe| pipe.recv_timeout(left).ok()).unwrap_or_default()
    };
    let printed = text(printed);
    if status.success() {
        return Ok(printed);
    }
    let complaint = text(complained);
    let first = complaint
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("ERROR") || line.starts_with("E:"));
    let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty());
    Err(first.or(last).map_or_else(|| format!("{name} failed: {status}"), str::to_owned))
}

/// Starts a command; a file that a fork of another thread still has open for writing is free a moment later.
fn start(mut command: Command) -> io::Result<Tied> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(err) if err.kind() == ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(10))
            }
            Err(err) => return Err(err),
            Ok(child) => return Ok(Tied::guard(child)),
        }
    }
    Err(ErrorKind::ExecutableFileBusy.into())
}

/// Reads a pipe to its end on a thread of its own.
fn gather(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (done, text) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error still tells more than nothing.
        pipe.read_to_end(&mut bytes).unwrap_or_default();
        done.send(String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, limit)
    }

    #[test]
    fn what_a_tool_prints_comes_back() {
        assert_eq!(shell("echo one; echo two", Duration::from_secs(10)), Ok("one\ntwo\n".into()));
    }

    #[test]
    fn a_failure_is_told_in_the_tools_own_words() {
        let failed = |script| shell(script, Duration::from_secs(10)).unwrap_err();
        assert_eq!(
            failed("echo 'ERROR: no such thing' >&2; echo more >&2; exit 1"),
            "ERROR: no such thing"
        );
        assert_eq!(failed("echo first >&2; echo last >&2; exit 1"), "last");
        assert!(failed("exit 3").contains("exit status: 3"));
    }

    #[test]
    fn a_tool_that_hangs_is_ended_at_the_limit() {
        let began = Instant::now();
        let hung = shell("exec sleep 60", Duration::from_millis(100)).unwrap_err();
        assert!(hung.contains("did not end"), "{hung}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
