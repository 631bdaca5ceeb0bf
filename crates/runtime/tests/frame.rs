//! The frame from the outside: exit codes, signals, logs, and what stands in them.
//!
//! This file is both sides: called by the name `holdfast-toy` it is a service, else it starts
//! itself under that name and looks at what it does. So it needs no harness but the list in `main`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test, though without the harness that clippy knows one by"
)]

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_runtime::{BoxError, Problems, Services, Settings};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Long enough for anything that is to happen.
const PATIENCE: Duration = Duration::from_secs(20);

const TOY: &str = "holdfast-toy";

fn main() -> ExitCode {
    if std::env::args_os().next().as_deref() == Some(OsStr::new(TOY)) {
        return holdfast_runtime::main(read, start);
    }
    let tests: &[(&str, fn())] = &[
        ("unusable_settings_end_with_64_and_one_line", unusable_settings),
        ("a_settings_file_that_is_not_there_ends_with_64", missing_file),
        ("a_command_line_that_is_wrong_ends_with_64_and_the_version_with_0", command_line),
        ("either_signal_drains_and_ends_with_0", signals),
        ("a_signal_while_starting_ends_with_0", early_signal),
        ("a_signal_while_the_settings_are_read_ends_with_0", signal_before_settings),
        ("a_second_signal_ends_at_once_and_not_with_0", second_signal),
        ("a_task_that_panics_ends_the_process_and_says_nothing_of_what_it_held", panicking),
        ("a_port_that_is_taken_ends_with_1", taken_port),
        ("the_ops_port_tells_health_and_metrics", ops_port),
    ];
    let mut failed = 0;
    for (name, test) in tests {
        let word = if catch_unwind(test).is_ok() { "ok" } else { "FAILED" };
        failed += usize::from(word != "ok");
        println!("test {name} ... {word}");
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

// The service.

/// What the toy does, by the name of its worker, and where its ops port is.
fn read(settings: &Settings) -> Result<(String, SocketAddr), Problems> {
    let mut problems = Problems::default();
    let name = settings.worker.name.clone().unwrap_or_default();
    problems.check(!name.is_empty(), "worker.name", &name, "must say what to do");
    problems.or((name, settings.worker.ops_listen))
}

async fn start((name, ops): (String, SocketAddr)) -> Result<Services, BoxError> {
    let mut services = Services::new();
    services.open_ops("worker.ops_listen", ops).await?;
    services.health().part("toy").ready();
    match &*name {
        "slow-start" => std::future::pending::<()>().await,
        "stuck" => services.spawn("stuck", |_| std::future::pending::<Result<(), Infallible>>()),
        "wild" => services.spawn("wild", |stop| async move {
            assert!(stop.is_cancelled(), "held the prompt S3CRET");
            Ok::<_, Infallible>(())
        }),
        _ => services.spawn("good", |stop| async move {
            stop.cancelled().await;
            Ok::<_, Infallible>(())
        }),
    }
    Ok(services)
}

// Those who look at it.

/// A toy that runs, and its log.
struct Toy {
    child: Child,
    lines: Receiver<String>,
    log: Vec<String>,
}

impl Toy {
    fn command() -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg0(TOY).env_clear().stdin(Stdio::null());
        command
    }

    /// Starts a toy that does this, with an ops port somewhere.
    fn start(name: &str) -> Self {
        let mut command = Self::command();
        command.env("HOLDFAST_WORKER_NAME", name);
        command.env("HOLDFAST_WORKER_OPS_LISTEN", "127.0.0.1:0");
        command.env("HOLDFAST_LOG_FILTER", "trace");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        Self { child, lines, log: Vec::new() }
    }

    /// Waits until an event with this message is logged.
    fn wait_for(&mut self, message: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no {message:?} in {:#?}", self.log));
            let event: Value = serde_json::from_str(&line).expect("one JSON object a line");
            self.log.push(line);
            if event["message"] == message {
                return event;
            }
        }
    }

    /// The address of its ops port.
    fn ops(&mut self) -> SocketAddr {
        self.wait_for("ops port open")["address"].as_str().unwrap().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for its end; its exit code, and all of its log.
    fn ended(mut self) -> (Option<i32>, String) {
        let status = wait(&mut self.child);
        self.log.extend(self.lines.iter());
        (status.code(), self.log.join("\n"))
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "it does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a toy that ends by itself: exit code, stdout, stderr.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Toy::command();
    let out = command.args(arguments).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

fn ask(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").unwrap();
    let mut told = String::new();
    socket.read_to_string(&mut told).unwrap();
    told
}

fn unusable_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("holdfast.toml");
    let text = "[redis]\nurl = \"redis://ad:S3CRET@h:x\"\n[worker]\nlease = \"500ms\"\n";
    std::fs::write(&path, text).unwrap();
    let variables = [("HOLDFAST_CONFIG", path.to_str().unwrap()), ("HOLDFAST_WROKER_NAME", "x")];
    let (code, out, err) = run(&[], &variables);
    assert_eq!((code, &*out), (Some(64), ""));
    assert_eq!(err.lines().count(), 1, "{err}");
    for told in ["unusable settings: ", "redis.url must", "worker.lease = 500ms", "WROKER_NAME"] {
        assert!(err.contains(told), "{told}: {err}");
    }
    assert!(!err.contains("S3CRET"), "{err}");

    // What only the service can tell ends the same way.
    let (code, _, err) = run(&[], &[]);
    assert_eq!(code, Some(64));
    assert_eq!(err, "unusable settings: worker.name = \"\" must say what to do\n");
}

fn missing_file() {
    let (code, _, err) = run(&["--config", "/nowhere/holdfast.toml"], &[]);
    assert_eq!(code, Some(64));
    assert!(err.contains("/nowhere/holdfast.toml can't be read: no such file"), "{err}");
}

fn command_line() {
    let (code, out, _) = run(&["--version"], &[]);
    assert_eq!((code, &*out), (Some(0), &*format!("{TOY} {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, out, err) = run(&["--confg", "x"], &[]);
    assert_eq!((code, &*out), (Some(64), ""));
    assert!(err.contains("--confg"), "{err}");
}

fn signals() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut toy = Toy::start("good");
        toy.wait_for("started");
        let asked = Instant::now();
        toy.signal(signal);
        let told = toy.wait_for("asked to stop");
        assert_eq!(told["signal"], signal.as_str());
        let (code, log) = toy.ended();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("draining") && log.contains("\"ended\""), "{log}");
        assert!(
            asked.elapsed() < Duration::from_secs(5),
            "an idle stop took {:?}",
            asked.elapsed()
        );
    }
}

fn early_signal() {
    let mut toy = Toy::start("slow-start");
    toy.ops();
    toy.signal(Signal::SIGTERM);
    let (code, log) = toy.ended();
    assert_eq!(code, Some(0), "{log}");
}

fn signal_before_settings() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("holdfast.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Toy::command();
    command.arg("--config").arg(&pipe).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It can be opened as soon as it is read, and nobody will ever write to it.
    let (send, opened) = channel();
    thread::spawn(move || send.send(std::fs::File::options().write(true).open(pipe)));
    let held = opened.recv_timeout(PATIENCE).expect("it reads its settings").unwrap();
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let code = wait(&mut child).code();
    drop(held);
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!((code, &*told), (Some(0), "stopped by SIGTERM before the start\n"));
}

fn second_signal() {
    let mut toy = Toy::start("stuck");
    toy.wait_for("started");
    toy.signal(Signal::SIGTERM);
    toy.wait_for("draining");
    let asked = Instant::now();
    toy.signal(Signal::SIGINT);
    let (code, log) = toy.ended();
    assert_eq!(code, Some(1), "{log}");
    assert!(asked.elapsed() < Duration::from_secs(5), "took {:?}", asked.elapsed());
}

fn panicking() {
    let (code, log) = Toy::start("wild").ended();
    assert_eq!(code, Some(1));
    assert!(log.contains("wild panicked") && log.contains("frame.rs:"), "{log}");
    assert!(!log.contains("S3CRET"), "{log}");
}

fn taken_port() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let variables = [("HOLDFAST_WORKER_NAME", "good"), ("HOLDFAST_WORKER_OPS_LISTEN", &*address)];
    let (code, out, err) = run(&[], &variables);
    assert_eq!(code, Some(1), "{out}");
    let told = format!("can't listen on {address} (worker.ops_listen): ");
    assert!(out.contains(&told), "{out}");
    assert!(err.starts_with(&format!("can't start: {told}")) && err.lines().count() == 1, "{err}");
}

fn ops_port() {
    let mut toy = Toy::start("good");
    let address = toy.ops();
    toy.wait_for("started");
    assert!(ask(address, "/livez").starts_with("HTTP/1.1 200"));
    assert!(ask(address, "/readyz").starts_with("HTTP/1.1 200"));
    let metrics = ask(address, "/metrics");
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    for told in [&*version, "process_cpu_seconds_total", "holdfast_redis_reconnects_total 0"] {
        assert!(metrics.contains(told), "{told}: {metrics}");
    }
}
