//! The operator's tool as a process: what it prints, what it exits with, and what it never shows.

mod doctor;
mod file;
mod one;
mod operate;
mod store;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::fleet::{Fleet, Role};

/// Longer than anything that the tool does in a test.
const LIMIT: Duration = Duration::from_secs(60);

/// What a run of the tool left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// How it exited; none: by a signal.
    pub(crate) code: Option<i32>,
    /// Its standard output, byte for byte.
    pub(crate) stdout: Vec<u8>,
    /// Its standard error.
    pub(crate) stderr: String,
}

impl Ran {
    /// Its standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text")
    }

    /// Its standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|err| panic!("{err}: {self:?}"))
    }

    /// The same, if it exited so.
    pub(crate) fn exited(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "{}\n{}",
            String::from_utf8_lossy(&self.stdout),
            self.stderr
        );
        self
    }
}

/// The tool with these arguments, without variables of ours. It is killed when the test ends.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_it-holdfastctl"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDFAST_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it to its end.
pub(crate) async fn ctl(arguments: &[&str]) -> Ran {
    ended(command(arguments)).await
}

/// Runs a command to its end.
pub(crate) async fn ended(mut command: Command) -> Ran {
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("an end in time");
    let output = output.expect("a run");
    let stderr = String::from_utf8(output.stderr).expect("text");
    Ran { code: output.status.code(), stdout: output.stdout, stderr }
}

/// Runs it against a fleet's API and its queue: the command, what follows, then where the API is.
pub(crate) async fn api(fleet: &Fleet, arguments: &[&str]) -> Ran {
    let server = fleet.api("");
    ctl(&[arguments, &["--server", &server, "--queue", "q"]].concat()).await
}

/// Starts a producer that the test may kill.
async fn producer(fleet: &Fleet) -> Role {
    let role = fleet.role("producer", env!("CARGO_BIN_EXE_it-producer"), &[]);
    fleet.ready(role.ops).await;
    role
}

/// A folder with one file in it.
pub(crate) fn file(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines.jsonl");
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// An OpenAI batch line.
fn line(custom_id: &str, content: &str) -> String {
    let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{content}\"}}]}}");
    format!(
        "{{\"custom_id\":\"{custom_id}\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{body}}}"
    )
}
