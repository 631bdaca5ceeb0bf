//! A real binary, its lines and its signals.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use holdfast_local_redis::{Tied, tied};
use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::signal;

/// How long a process that was asked to end may take; longer than any drain in a test.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How long the last lines of an ended process are awaited: a grandchild may hold its pipes open.
const LAST_LINES: Duration = Duration::from_secs(2);
/// How many lines a failing test is shown.
const SHOWN: usize = 40;

/// A running binary. It is killed when it is dropped, and when the test dies.
///
/// A test that fails shows its last lines.
pub struct Process {
    name: String,
    child: Tied,
    output: Arc<Output>,
    changes: watch::Receiver<Seen>,
}

/// What a process that ran to its end left behind.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Progress of the readers: lines so far, and pipes that are still open.
#[derive(Clone, Copy)]
struct Seen {
    lines: usize,
    open: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

/// Every line of both pipes, in the order in which they were read.
struct Output {
    lines: Mutex<Vec<(Stream, String)>>,
    seen: watch::Sender<Seen>,
}

/// A child takes over which signals are ignored: one that is started by somebody without a terminal is to hear of a hang-up
/// all the same.
fn command(program: &Path) -> Command {
    if !signal::is_ignored(Signal::SIGHUP) {
        return tied::command(program);
    }
    let mut command = tied::command(Path::new("env"));
    command.arg("--default-signal=HUP").arg(program);
    command
}

impl Process {
    /// Starts a binary with these arguments and variables. It inherits the environment, but for what starts with
    /// `HOLDFAST_`.
    pub fn start<A: AsRef<OsStr>>(
        program: impl AsRef<Path>,
        args: &[A],
        env: &[(&str, &str)],
    ) -> Self {
        let program = program.as_ref();
        let mut command = command(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in
            env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HOLDFAST_"))
        {
            command.env_remove(name);
        }
        command.envs(env.iter().copied());
        let mut child = Tied::spawn(command)
            .unwrap_or_else(|err| panic!("can't run {}: {err}", program.display()));

        let (seen, changes) = watch::channel(Seen { lines: 0, open: 2 });
        let output = Arc::new(Output { lines: Mutex::default(), seen });
        output.read(Stream::Stdout, child.child().stdout.take().expect("a pipe"));
        output.read(Stream::Stderr, child.child().stderr.take().expect("a pipe"));
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, child, output, changes }
    }

    /// Runs a binary to its end.
    pub async fn run<A: AsRef<OsStr>>(
        program: impl AsRef<Path>,
        args: &[A],
        env: &[(&str, &str)],
    ) -> Finished {
        let mut process = Self::start(program, args, env);
        let status = process.wait(END_LIMIT).await;
        Finished { status, stdout: process.stdout(), stderr: process.stderr() }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Waits for a line, also among those that came already, and gives it.
    ///
    /// # Panics
    ///
    /// If there is none within `limit`, or its pipes are closed before.
    pub async fn wait_for_line(
        &self,
        mut wanted: impl FnMut(&str) -> bool,
        limit: Duration,
    ) -> String {
        let (mut changes, until, mut next) = (self.changes.clone(), Instant::now() + limit, 0);
        loop {
            let seen = *changes.borrow_and_update();
            let found =
                self.output.lines().iter().skip(next).find(|(_, line)| wanted(line)).cloned();
            if let Some((_, line)) = found {
                return line;
            }
            next = seen.lines;
            assert!(
                seen.open > 0,
                "{} ended without the awaited line:\n{}",
                self.name,
                self.tail()
            );
            let changed = timeout_at(until, changes.changed()).await;
            changed
                .unwrap_or_else(|_| {
                    panic!("{}: no such line within {limit:?}:\n{}", self.name, self.tail())
                })
                .expect("output");
        }
    }

    /// Everything it has written so far, to both pipes.
    pub fn output(&self) -> String {
        self.output.text(|_| true)
    }

    /// What it has written to its standard output so far.
    pub fn stdout(&self) -> String {
        self.output.text(|stream| stream == Stream::Stdout)
    }

    /// What it has written to its standard error so far.
    pub fn stderr(&self) -> String {
        self.output.text(|stream| stream == Stream::Stderr)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.ended().expect("the state of a child").is_none()
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) -> ExitStatus {
        self.child.kill().expect("a child that can be killed")
    }

    /// Freezes it with SIGSTOP.
    pub fn freeze(&mut self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Wakes it with SIGCONT.
    pub fn wake(&mut self) {
        self.signal(Signal::SIGCONT);
    }

    /// Asks it to end with SIGTERM and waits until it has.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait(END_LIMIT).await
    }

    /// Sends it a signal.
    ///
    /// # Panics
    ///
    /// If it has ended: its number may be another's by now.
    pub fn signal(&mut self, signal: Signal) {
        assert!(self.is_running(), "{} has ended before {signal}:\n{}", self.name, self.tail());
        crate::signal::send(self.pid(), signal);
    }

    /// Waits until it has ended and its last lines are read.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        let until = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.ended().expect("the state of a child") {
                break status;
            }
            assert!(
                Instant::now() < until,
                "{} did not end within {limit:?}:\n{}",
                self.name,
                self.tail()
            );
            sleep(Duration::from_millis(5)).await;
        };
        let mut changes = self.changes.clone();
        // Whatever is missing after that is written by somebody else.
        timeout(LAST_LINES, changes.wait_for(|seen| seen.open == 0))
            .await
            .map(drop)
            .unwrap_or_default();
        status
    }

    fn tail(&self) -> String {
        let text = self.output();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- the last lines of {} ({}):\n{}", self.name, self.pid(), self.tail());
        }
    }
}

impl Output {
    /// Reads a pipe, line by line, until everybody who writes to it is gone.
    fn read(self: &Arc<Self>, stream: Stream, pipe: impl Read + Send + 'static) {
        let output = Arc::clone(self);
        thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
                output.lines().push((stream, line));
                output.seen.send_modify(|seen| seen.lines += 1);
            }
            output.seen.send_modify(|seen| seen.open -= 1);
        });
    }

    fn lines(&self) -> MutexGuard<'_, Vec<(Stream, String)>> {
        // Only whole lines are ever pushed.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self, wanted: impl Fn(Stream) -> bool) -> String {
        let lines = self.lines();
        let wanted = lines.iter().filter(|(stream, _)| wanted(*stream));
        wanted.fold(String::new(), |text, (_, line)| text + line + "\n")
    }
}

#[cfg(test)]
mod tests;
