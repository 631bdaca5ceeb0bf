//! Another version of the roles, built from its commit, that runs beside this one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::programs::Programs;

/// The programs of the commit which `tests/upgrade-from` names: who runs it must be able to change to this one, and back.
pub(crate) fn upgraded_from() -> Programs {
    let commit = include_str!("../upgrade-from").trim();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upgrade-from").join(commit);
    let (source, target) = (folder.join("source"), folder.join("target"));
    if !source.join("Cargo.toml").exists() {
        unpack(root, commit, &source);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(&source).args(["build", "--quiet", "--locked", "--target-dir"]).arg(&target);
    for role in ["producer", "worker", "reclaimer"] {
        build.args(["--package", &format!("holdfast-{role}")]);
    }
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    if profile == "release" {
        build.arg("--release");
    }
    let built = build.status().expect("cargo");
    assert!(built.success(), "the version of {commit} can't be built");
    let program = |role: &str| target.join(profile).join(format!("holdfast-{role}"));
    Programs {
        producer: program("producer"),
        worker: program("worker"),
        reclaimer: program("reclaimer"),
    }
}

/// Lays the files of a commit into a folder.
fn unpack(root: &Path, commit: &str, into: &Path) {
    fs::create_dir_all(into).expect("a folder");
    let mut archive = Command::new("git")
        .current_dir(root)
        .args(["archive", "--format=tar", commit])
        .stdout(Stdio::piped())
        .spawn()
        .expect("git");
    let files = archive.stdout.take().expect("a pipe");
    let unpacked = Command::new("tar").arg("-x").current_dir(into).stdin(files).status();
    let archived = archive.wait().expect("git");
    assert!(
        archived.success() && unpacked.expect("tar").success(),
        "commit {commit} of tests/upgrade-from is not in this clone: a shallow one lacks it"
    );
}
