//! The examples of docs/http.md, run as they stand there against a fleet.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use holdfast_testkit::Process;

use crate::fleet::Fleet;

const PAGE: &str = include_str!("../../docs/http.md");

/// What the examples call.
const NAMED: &str = "http://127.0.0.1:8080/v1/queues/default";

const LIMIT: Duration = Duration::from_secs(60);

/// The blocks of one language under the heading of the examples.
fn blocks(language: &str) -> Vec<&'static str> {
    let section = PAGE.split("\n## Examples\n").nth(1).expect("a heading");
    let section = section.split("\n## ").next().expect("a section");
    let fence = format!("```{language}\n");
    section.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// Runs every block of a language, and counts the outcomes that it prints.
async fn run(language: &str, program: &str, name: &str) -> Option<usize> {
    let fleet = Fleet::start().await;
    let _worker = fleet.worker();
    let folder = tempfile::tempdir().expect("a folder");
    let blocks = blocks(language);
    assert!(!blocks.is_empty(), "no example in {language}");
    let mut outcomes = 0;
    for block in blocks {
        assert!(block.contains(NAMED), "{block}");
        let path = folder.path().join(name);
        fs::write(&path, block.replace(NAMED, &fleet.api("/v1/queues/q"))).expect("a file");
        // What it writes beside its output stays in its folder.
        let line = format!("cd '{}' && exec {program} '{name}'", folder.path().display());
        let mut running = Process::start("sh", &[Path::new("-c"), Path::new(&line)], &[]);
        let status = running.wait(LIMIT).await;
        if status.code() == Some(127) {
            skip(program);
            return None;
        }
        assert!(status.success(), "{block}\n{}", running.output());
        let output = running.output().to_lowercase();
        outcomes += output.matches("holdfast-outcome: answered").count();
    }
    Some(outcomes)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_with_curl_runs_as_it_stands() {
    assert!(run("sh", "sh -eu", "example.sh").await.is_none_or(|outcomes| outcomes == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_in_python_runs_as_it_stands() {
    assert!(run("python", "python3", "example.py").await.is_none_or(|outcomes| outcomes == 1));
}

/// It has no annotations, so that node runs it without a compiler.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_in_typescript_runs_as_it_stands() {
    assert!(run("typescript", "node", "example.mjs").await.is_none_or(|outcomes| outcomes == 2));
}

/// Says that nothing was tested, past the capture that hides what a passing test prints.
fn skip(program: &str) {
    assert!(
        env::var_os("CI").is_none_or(|ci| ci.is_empty()),
        "in CI there is no way around it: {program} is missing"
    );
    let line = "=".repeat(80);
    let told = format!("\n{line}\nSKIPPED, NOT TESTED: {program} is missing\n{line}\n");
    std::io::stderr().write_all(told.as_bytes()).expect("standard error");
}
