//! What the docs name exists, and what exists is named in the docs.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{self, Source};

/// The heading under which nothing is promised, so nothing needs a test.
const NOT_PROMISED: &str = "Not promised";

#[test]
fn each_script_has_its_typed_call_and_a_heading() {
    let files = tree::sources();
    let headings = headings(&text_of(&files, "docs/protocol.md"));
    let scripts: Vec<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/core/lua/")?.strip_suffix(".lua"))
        .filter(|name| !name.contains('/'))
        .collect();
    assert!(!scripts.is_empty(), "no scripts found");
    for script in scripts {
        let call = format!("crates/core/src/script/{script}.rs");
        assert!(files.iter().any(|file| file.path == call), "{call} is missing");
        assert!(headings.contains(script), "docs/protocol.md has no heading {script}");
    }
}

#[test]
fn the_metrics_of_the_docs_are_those_of_the_code() {
    let files = tree::sources();
    let (docs, code) =
        (text_of(&files, "docs/metrics.md"), text_of(&files, "crates/core/src/metrics.rs"));
    let is_ours = |word: &&str| word.starts_with("holdfast_");
    let named: BTreeSet<&str> = code.split('"').filter(is_ours).collect();
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert!(!named.is_empty(), "no metrics found");
    assert_eq!(rows.collect::<BTreeSet<&str>>(), named);
}

#[test]
fn each_promise_names_a_test_that_exists() {
    let files = tree::sources();
    let guarantees = text_of(&files, "docs/guarantees.md");
    let promises = promises(&guarantees);
    assert!(promises.len() > 10, "only {} promises found", promises.len());
    let told: Vec<String> = promises.iter().flat_map(|promise| unproven(promise, &files)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn each_invariant_names_a_test_that_exists() {
    let files = tree::sources();
    let page = text_of(&files, "docs/protocol.md");
    let (stated, shown) = invariants(&page);
    assert!(stated.len() > 10, "only {} invariants found", stated.len());
    assert_eq!(shown.keys().copied().collect::<BTreeSet<_>>(), stated, "each has its row");
    let told: Vec<String> = shown.values().flat_map(|row| unproven(row, &files)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn an_invariant_is_a_numbered_line_and_is_shown_by_a_numbered_row() {
    let page = "1. **No.** x\n## 3. Invariants\n1. **A.** b\n2. **C.** d\n| | by |\n| 2 | `x` |\n## 4.\n| 3 | y |";
    let (stated, shown) = invariants(page);
    assert_eq!((stated, shown), (BTreeSet::from(["1", "2"]), BTreeMap::from([("2", "`x` |")])));
}

#[test]
fn a_promise_without_its_test_is_told() {
    let text =
        "#[test]\nfn it_holds() {}\n#[tokio::test]\nasync fn it_holds_too() {}\n\nfn helps() {}";
    let files = [Source { path: "tests/it/kept.rs".to_owned(), text: text.to_owned() }];
    for test in ["it_holds", "it_holds_too"] {
        let promise = format!("Kept. `tests/it/kept.rs::{test}`");
        assert!(unproven(&promise, &files).is_empty(), "{test}");
    }
    assert_eq!(unproven("A claim without proof.", &files).len(), 1);
    for test in ["kept.rs::it_hold", "lost.rs::it_holds", "kept.rs::helps"] {
        assert_eq!(unproven(&format!("Kept. `tests/it/{test}`"), &files).len(), 1, "{test}");
    }
}

#[test]
fn a_promise_goes_on_over_lines_and_ends_with_the_next() {
    let text = "# A\n- one\n  more\n- two\n\n## Not promised\n- three\n## B\n- four";
    assert_eq!(promises(text), ["- one more", "- two", "- four"]);
}

#[test]
fn a_link_from_one_page_to_another_leads_somewhere() {
    let files = tree::sources();
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let pages = files.iter().filter(|file| file.is_one_of(&[".md"]));
    let dead: Vec<String> = pages
        .flat_map(|page| links(page).into_iter().map(move |to| (page.path.as_str(), to)))
        .filter(|(_, to)| {
            !paths.iter().any(|path| path == to || path.starts_with(&format!("{to}/")))
        })
        .map(|(page, to)| format!("{page} links to {to}, which is not there"))
        .collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn ci_runs_what_the_justfile_says() {
    let files = tree::sources();
    let (just, ci) = (text_of(&files, "Justfile"), text_of(&files, ".ci/run"));
    for recipe in ["test", "lint"] {
        let body: Vec<&str> = just
            .lines()
            .skip_while(|line| !line.starts_with(&format!("{recipe}:")))
            .skip(1)
            .take_while(|line| line.starts_with(' '))
            .collect();
        assert!(!body.is_empty(), "the Justfile has no recipe {recipe}");
        for line in body {
            assert!(ci.contains(line.trim()), ".ci/run does not run `{}`", line.trim());
        }
    }
}

fn text_of(files: &[Source], path: &str) -> String {
    let found = files.iter().find(|file| file.path == path);
    found.unwrap_or_else(|| panic!("{path} is missing")).text.clone()
}

/// The headings of a page, bare.
fn headings(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| line.trim_start_matches('#').trim().trim_matches('`').to_owned();
    page.lines().filter(|line| line.starts_with('#')).map(heading).collect()
}

/// The list items of a page, each in one line, but for those under `Not promised`.
fn promises(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let (mut counts, mut open) = (true, false);
    for line in page.lines() {
        if line.starts_with('#') {
            counts = !line.contains(NOT_PROMISED);
        }
        let begins = line.starts_with("- ");
        open = counts && (begins || (open && line.starts_with("  ")));
        match (open, begins, found.last_mut()) {
            (true, false, Some(last)) => *last = format!("{last} {}", line.trim()),
            (true, ..) => found.push(line.to_owned()),
            (false, ..) => {}
        }
    }
    found
}

/// What is wrong with the tests that a promise names.
fn unproven(promise: &str, files: &[Source]) -> Vec<String> {
    let named: Vec<(&str, &str)> =
        promise.split('`').filter_map(|word| word.split_once(".rs::")).collect();
    if named.is_empty() {
        return vec![format!("no test is named: {promise}")];
    }
    let exists = |file: &str, test: &str| {
        let path = format!("{file}.rs");
        files.iter().any(|source| source.path == path && has_test(&source.text, test))
    };
    let missing = named.into_iter().filter(|(file, test)| !exists(file, test));
    missing.map(|(file, test)| format!("no such test: {file}.rs::{test}")).collect()
}

/// Whether a function of this name is there, and is a test.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = format!("fn {name}(");
    let at = lines.iter().position(|line| line.trim_start_matches("async ").starts_with(&begins));
    // The attributes stand between it and whatever comes before.
    let before = at.map_or(&[][..], |at| &lines[..at]);
    let mut attributes = before.iter().rev().take_while(|line| line.starts_with("#["));
    attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

/// The numbers of the invariants, and the row that shows each.
fn invariants(page: &str) -> (BTreeSet<&str>, BTreeMap<&str, &str>) {
    let section = page.split("## 3. ").nth(1).and_then(|rest| rest.split("\n## ").next());
    let lines = || section.unwrap_or_default().lines();
    let is_number =
        |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let stated = lines().filter_map(|line| line.split_once(". **")).map(|(number, _)| number);
    let rows = lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    (stated.filter(is_number).collect(), rows.filter(|(number, _)| is_number(number)).collect())
}

/// Where a page links to within the project, from the root.
fn links(page: &Source) -> Vec<String> {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let targets = page.text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains(':') && !target.starts_with('/'))
        .map(|target| joined(folder, target))
        .collect()
}

fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
