//! What the docs name exists, and what exists is named in the docs.

use std::collections::{BTreeMap, BTreeSet};

use super::promises::{known, named, unknown};
use super::tree::{self, Source, text_of};

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
fn each_invariant_names_a_test_that_exists() {
    let files = tree::sources();
    let page = text_of(&files, "docs/protocol.md");
    let (stated, shown) = invariants(&page);
    assert!(stated.len() > 10, "only {} invariants found", stated.len());
    assert_eq!(shown.keys().copied().collect::<BTreeSet<_>>(), stated, "each has its row");
    let known = known(&files);
    for (number, row) in shown {
        let tests = named(row);
        assert!(!tests.is_empty(), "invariant {number} names no test");
        assert_eq!(unknown(&tests, &known), [""; 0], "invariant {number}");
    }
}

#[test]
fn an_invariant_is_a_numbered_line_and_is_shown_by_a_numbered_row() {
    let page = "1. **No.** x\n## 3. Invariants\n1. **A.** b\n2. **C.** d\n| | by |\n| 2 | `x` |\n## 4.\n| 3 | y |";
    let (stated, shown) = invariants(page);
    assert_eq!((stated, shown), (BTreeSet::from(["1", "2"]), BTreeMap::from([("2", "`x` |")])));
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

/// The headings of a page, bare.
fn headings(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| line.trim_start_matches('#').trim().trim_matches('`').to_owned();
    page.lines().filter(|line| line.starts_with('#')).map(heading).collect()
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
