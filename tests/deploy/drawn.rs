//! `deploy/secrets.sh` tells all of it, or nothing: a users file that Redis can't load locks every role out.

use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use crate::rendered::root;

/// What the script needs beside a tool for hashes.
const TOOLS: [&str; 6] = ["cat", "dirname", "sed", "od", "tr", "cut"];

/// Where this machine has a tool.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|it| it.is_file())
}

/// Runs the script where there are these tools alone.
fn run(tools: &[&str], argument: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for name in tools {
        let tool = found(name).unwrap_or_else(|| panic!("no {name} in PATH"));
        symlink(tool, folder.path().join(name)).unwrap();
    }
    let mut command = Command::new("/bin/sh");
    command.arg(root().join("deploy/secrets.sh")).arg(argument).env("PATH", folder.path());
    command.output().unwrap()
}

/// The same with all but these, or with one more.
fn without(lacks: &str, argument: &str) -> Output {
    let tools: Vec<&str> = TOOLS.into_iter().chain(["sha256sum"]).collect();
    let tools: Vec<&str> = tools.into_iter().filter(|it| *it != lacks).collect();
    run(&tools, argument)
}

#[test]
fn without_a_tool_that_it_needs_nothing_is_told_that_could_be_applied() {
    for argument in ["holdfast", "--acl"] {
        for lacks in TOOLS.into_iter().chain(["sha256sum"]) {
            let told = without(lacks, argument);
            assert!(!told.status.success(), "{argument} without {lacks}");
            assert_eq!(String::from_utf8(told.stdout).unwrap(), "", "{argument} without {lacks}");
        }
    }
}

#[test]
fn each_hash_is_of_the_password_that_goes_with_it_by_whatever_tool() {
    for tool in ["sha256sum", "shasum"] {
        if found(tool).is_none_or(|tool| !is_usable(&tool)) {
            eprintln!("not tested: no {tool}");
            continue;
        }
        let told = run(&[&TOOLS[..], &[tool]].concat(), "--acl");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        let acl = String::from_utf8(told.stdout).unwrap();
        let passwords = String::from_utf8(told.stderr).unwrap();
        assert_eq!(passwords.lines().count(), 4, "{passwords}");
        for line in passwords.lines() {
            let (user, password) = line.split_once(' ').unwrap();
            let hash = Sha256::digest(password).iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
            let rights = format!("user {user} on #{hash} ");
            assert!(acl.lines().any(|it| it.starts_with(&rights)), "{user} in {acl}");
        }
    }
}

/// Whether it runs where nothing else is in `PATH`.
fn is_usable(tool: &Path) -> bool {
    Command::new(tool).arg("--version").env("PATH", "").output().is_ok_and(|it| it.status.success())
}
