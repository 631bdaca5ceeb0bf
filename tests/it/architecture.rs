//! The shape of the tree, held by tests.
//!
//! - here: which crate may use which
//! - `files`: what stands at the top, how long a file may be, what may have one home only
//! - `docs`: what the docs name exists, and what exists is named in the docs
//! - `promises`: each sentence of docs/guarantees.md has its tests; `listed`: the tests that there are
//!
//! Each rule is a function over texts, so that it can also be shown a breach.

mod docs;
mod files;
mod listed;
mod promises;
mod tree;

use std::collections::BTreeSet;

use toml::{Table, Value};

use tree::Source;

/// What each crate may use of ours. An arrow that is not here does not exist.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("local-redis", &[]),
    ("stand-in", &[]),
    ("runtime", &["core"]),
    ("producer", &["runtime", "core"]),
    ("worker", &["runtime", "core"]),
    ("reclaimer", &["runtime", "core"]),
    ("cli", &["runtime", "core"]),
    (
        "standalone",
        &["producer", "worker", "reclaimer", "runtime", "core", "local-redis", "stand-in"],
    ),
    ("testkit", &["local-redis", "stand-in"]),
    ("fuzz", &["producer", "worker", "runtime", "core", "cli", "local-redis"]),
    ("model", &["core"]),
    ("schedules", &["worker", "reclaimer", "runtime", "core", "model"]),
    // Measured beside ours, so nothing of ours is in it.
    ("bench/peers/apalis", &[]),
    (
        "tests",
        &[
            "producer",
            "worker",
            "reclaimer",
            "runtime",
            "core",
            "cli",
            "standalone",
            "testkit",
            "model",
        ],
    ),
];

/// What the tests of any crate may use on top.
const TESTS_MAY_USE: &[&str] = &["testkit"];

#[test]
fn crates_use_only_what_they_may() {
    let breaches: Vec<String> = manifests()
        .iter()
        .flat_map(|(name, manifest)| forbidden_arrows(name, &manifest.parse().unwrap()))
        .collect();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn every_crate_of_the_table_exists() {
    let there: BTreeSet<String> = manifests().into_iter().map(|(name, _)| name).collect();
    let named: BTreeSet<String> = MAY_USE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, named, "MAY_USE lists exactly the crates there are");
}

#[test]
fn an_arrow_that_is_not_allowed_is_told() {
    let worker: Table = "[dependencies]\nholdfast-producer.workspace = true".parse().unwrap();
    let told = forbidden_arrows("worker", &worker);
    assert_eq!(told, [r#"worker uses {"producer"}, but may {"core", "runtime"}"#]);

    // Neither a table of its own, nor another name, nor a platform hides it.
    for hidden in [
        "[build-dependencies.holdfast-worker]\npath = '../worker'",
        "[dependencies]\nother = { path = '../worker', package = 'holdfast-worker' }",
        "[target.'cfg(unix)'.dependencies]\nholdfast-worker = { path = '../worker' }",
    ] {
        let core: Table = hidden.parse().unwrap();
        assert_eq!(forbidden_arrows("core", &core).len(), 1, "{hidden}");
    }
}

#[test]
fn a_crate_that_nobody_wrote_down_is_told() {
    let told = forbidden_arrows("gossip", &Table::new());
    assert_eq!(told, ["gossip is new: say here what it may use"]);
}

#[test]
fn tests_may_use_the_testkit_and_nothing_else_on_top() {
    let manifest = |of: &str| -> Table { format!("[dev-dependencies.{of}]").parse().unwrap() };
    assert!(forbidden_arrows("core", &manifest("holdfast-testkit")).is_empty());
    assert_eq!(forbidden_arrows("core", &manifest("holdfast-worker")).len(), 1);
}

/// Every member of the workspace: its folder's name and its manifest.
fn manifests() -> Vec<(String, String)> {
    let found: Vec<_> = tree::sources().iter().filter_map(manifest).collect();
    assert!(found.len() > 1, "no manifests found");
    found
}

fn manifest(source: &Source) -> Option<(String, String)> {
    let folder = source.path.strip_suffix("/Cargo.toml")?;
    let name = ["crates/", "tests/"].iter().find_map(|above| folder.strip_prefix(above));
    Some((name.unwrap_or(folder).to_owned(), source.text.clone()))
}

/// What a manifest uses of ours although it may not.
fn forbidden_arrows(name: &str, manifest: &Table) -> Vec<String> {
    let Some((_, may)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
        return vec![format!("{name} is new: say here what it may use")];
    };
    let may: BTreeSet<&str> = may.iter().copied().collect();
    let may_in_tests: BTreeSet<&str> = may.iter().chain(TESTS_MAY_USE).copied().collect();
    let kinds = [("dependencies", &may), ("build-dependencies", &may)];
    let mut told = Vec::new();
    for (kind, may) in kinds.into_iter().chain([("dev-dependencies", &may_in_tests)]) {
        let uses = ours(manifest, kind);
        if !uses.iter().all(|used| may.contains(used.as_str())) {
            told.push(format!("{name} uses {uses:?}, but may {may:?}"));
        }
    }
    told
}

/// The crates of ours in one kind of dependencies, also those of one platform only.
fn ours(manifest: &Table, kind: &str) -> BTreeSet<String> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let tables = platforms.into_iter().flat_map(|all| all.values()).filter_map(Value::as_table);
    [manifest]
        .into_iter()
        .chain(tables)
        .filter_map(|table| table.get(kind).and_then(Value::as_table))
        .flatten()
        .filter_map(|(name, how)| {
            let package = how.get("package").and_then(Value::as_str).unwrap_or(name);
            package.strip_prefix("holdfast-").map(str::to_owned)
        })
        .collect()
}
