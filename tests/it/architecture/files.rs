//! What stands at the top, how long a file may be, and what has one home only.

use super::tree::{self, Source};

/// The fixed top level; dot files beside it hold the settings of tools.
const TOP: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "Justfile",
    "LICENSE",
    "README.md",
    "crates",
    "deploy",
    "docs",
    "tests",
];

/// What git does not keep while it is empty.
const MAY_LACK: &[&str] = &["deploy"];

const LONGEST: usize = 500;

/// What may be spelled in one place only.
struct Home {
    what: &'static str,
    spelled: fn(&str) -> bool,
    /// How the paths start under which it may stand.
    at: &'static [&'static str],
}

const HOMES: &[Home] = &[
    Home {
        what: "EVALSHA: only core::script runs scripts",
        spelled: |line| line.contains("EVAL"),
        at: &["crates/core/src/script"],
    },
    Home {
        what: "a key: only core::keys spells one",
        spelled: |line| line.contains("hf1:"),
        at: &["crates/core/src/keys.rs"],
    },
    Home {
        what: "the environment: only runtime::settings reads it",
        spelled: |line| line.contains("env::var") || line.contains("env::{"),
        at: &["crates/runtime/src/settings"],
    },
    Home {
        what: "a metric: only core::metrics names one",
        spelled: names_a_metric,
        at: &["crates/core/src/metrics.rs", "crates/core/src/metrics/"],
    },
];

#[test]
fn the_top_level_is_the_fixed_one() {
    let names = tree::top();
    let visible: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !name.starts_with('.')).collect();
    let strange: Vec<_> = visible.iter().filter(|name| !TOP.contains(name)).collect();
    assert!(strange.is_empty(), "not part of the top level: {strange:?}");
    let missing: Vec<_> =
        TOP.iter().filter(|name| !visible.contains(name) && !MAY_LACK.contains(name)).collect();
    assert!(missing.is_empty(), "missing at the top: {missing:?}");
}

#[test]
fn no_file_is_longer_than_500_lines() {
    none(tree::sources().iter().filter_map(too_long));
    assert!(too_long(&rust("long.rs", &"line\n".repeat(LONGEST + 1))).is_some());
    assert!(too_long(&rust("fits.rs", &"line\n".repeat(LONGEST))).is_none());
}

#[test]
fn no_module_hides_behind_the_name_mod() {
    none(tree::sources().iter().filter(|file| file.is_one_of(&["/mod.rs"])).map(path));
}

#[test]
fn no_path_of_one_machine_stands_in_a_file() {
    none(tree::sources().iter().filter_map(machine_path));
    let path = concat!("see /ro", "ot/holdfast");
    assert!(machine_path(&rust("slip.rs", path)).is_some());
}

#[test]
fn what_has_one_home_is_spelled_nowhere_else() {
    none(tree::sources().iter().flat_map(strays));
    for (line, count) in [
        (r#"redis.custom("EVALSHA", args)"#, 1),
        (r#"let key = format!("hf1:{queue}:pending");"#, 1),
        (r#"std::env::var("HOME")"#, 1),
        (r#"counter!("holdfast_claims_total")"#, 1),
        ("use holdfast_core::metrics;", 0),
        (r#"filter("holdfast_worker=debug")"#, 0),
        ("// a comment may speak of hf1: and of EVALSHA", 0),
    ] {
        assert_eq!(strays(&rust("crates/worker/src/slip.rs", line)).len(), count, "{line}");
    }
    let tested = "fn shipped() {}\n#[cfg(test)]\nmod tests {\n    const KEY: &str = \"hf1:\";";
    assert!(strays(&rust("crates/worker/src/tested.rs", tested)).is_empty());
}

fn too_long(file: &Source) -> Option<String> {
    let counts = file.is_one_of(&[".rs", ".lua", ".py", ".sh", ".ci/run", "Justfile"]);
    let lines = file.text.lines().count();
    (counts && lines > LONGEST).then(|| format!("{}: {lines} lines", file.path))
}

fn machine_path(file: &Source) -> Option<String> {
    // Taken apart, so that this file does not find itself.
    let slips = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
    let at = file.text.lines().position(|line| slips.iter().any(|slip| line.contains(slip)))?;
    Some(format!("{}:{}: a path of one machine", file.path, at + 1))
}

/// The lines of a crate's sources that spell what another file is the home of.
fn strays(file: &Source) -> Vec<String> {
    let ships = file.path.starts_with("crates/") && !file.path.starts_with("crates/testkit/");
    if !ships || !file.is_one_of(&[".rs"]) {
        return Vec::new();
    }
    let away = |home: &&Home| !home.at.iter().any(|at| file.path.starts_with(at));
    let homes: Vec<&Home> = HOMES.iter().filter(away).collect();
    let mut found = Vec::new();
    for (number, line) in file.shipped() {
        for home in homes.iter().filter(|home| (home.spelled)(line)) {
            found.push(format!("{}:{number}: {}", file.path, home.what));
        }
    }
    found
}

/// Whether a line names something of ours that is no crate.
fn names_a_metric(line: &str) -> bool {
    let crates = super::MAY_USE.iter().map(|(name, _)| name.replace('-', "_"));
    let crates: Vec<String> = crates.collect();
    line.split("holdfast_").skip(1).any(|rest| {
        let word: String =
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        !crates.contains(&word)
    })
}

fn rust(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

fn path(file: &Source) -> String {
    file.path.clone()
}

fn none(breaches: impl Iterator<Item = String>) {
    let breaches: Vec<String> = breaches.collect();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}
