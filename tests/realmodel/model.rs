//! The model: installed once into the target folder, served by a process of its own.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_testkit::Process;

/// For about 220 MB.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);
/// For reading the model's file.
const LOAD_LIMIT: Duration = Duration::from_secs(120);

/// A server with a real model. It ends with its owner.
pub(crate) struct Model {
    /// Its base URL.
    pub(crate) url: String,
    _process: Process,
}

impl Model {
    /// Installs the model if need be, and serves it. None where it can't be had; in CI that is a failure.
    pub(crate) async fn start() -> Option<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("realmodel");
        if let Err(output) = install(&folder).await {
            skip(&output);
            return None;
        }
        let process = Process::start(folder.join("python"), &[here("serve.py")], &[]);
        let url = process.wait_for_line(|line| line.starts_with("http://"), LOAD_LIMIT).await;
        Some(Self { url: url.trim_end_matches('/').to_owned(), _process: process })
    }
}

/// The output of an installation that failed is its error.
async fn install(folder: &Path) -> Result<(), String> {
    let arguments = [here("install.sh"), folder.to_owned()];
    let mut installing = Process::start("sh", &arguments, &[]);
    match installing.wait(INSTALL_LIMIT).await {
        status if status.success() => Ok(()),
        _ => Err(installing.output()),
    }
}

fn here(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "realmodel", name].iter().collect()
}

/// Says that nothing was tested, past the capture that hides what a passing test prints.
fn skip(output: &str) {
    let why = format!(
        "the real model can't be installed (python3 with venv or pip, and a PyPI to ask):\n{output}"
    );
    assert!(
        env::var_os("CI").is_none_or(|ci| ci.is_empty()),
        "in CI there is no way around it: {why}"
    );
    let line = "=".repeat(80);
    let told = format!("\n{line}\nSKIPPED, NOT TESTED: {why}{line}\n");
    std::io::stderr().write_all(told.as_bytes()).expect("standard error");
}
