//! What docs/guarantees.md promises, sentence by sentence, each with its tests.

use std::collections::BTreeSet;
use std::process::Command;

use super::listed::{self, Listed};
use super::tree::{self, Source};

/// The heading under which nothing is promised, so nothing needs a test.
const NOT_PROMISED: &str = "Not promised";

#[test]
fn each_sentence_that_promises_names_tests_that_run() {
    let files = tree::sources();
    let page = tree::text_of(&files, "docs/guarantees.md");
    let sentences = sentences(&page);
    assert!(sentences.len() > 60, "only {} sentences found", sentences.len());
    let known = known(&files);
    let told: Vec<String> = sentences.iter().filter_map(Sentence::fault).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
    let told: Vec<String> =
        sentences.iter().flat_map(|sentence| unknown(&sentence.tests, &known)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn each_test_that_a_page_names_runs() {
    let files = tree::sources();
    let known = known(&files);
    let pages = files.iter().filter(|file| file.is_one_of(&[".md"]));
    let told: Vec<String> = pages
        .flat_map(|page| {
            let unknown = unknown(&named(&page.text), &known).into_iter();
            unknown.map(|told| format!("{}: {told}", page.path))
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn the_tests_that_are_found_are_those_that_a_program_lists() {
    let files = tree::sources();
    let root = "tests/it/main.rs";
    let found: BTreeSet<String> = listed::tests(&files)
        .into_iter()
        .filter(|test| test.root == root)
        .map(|test| test.name)
        .collect();
    let ignored = listed_by_this_program(&["--list", "--ignored"]);
    let mut listed = listed_by_this_program(&["--list"]);
    listed.retain(|name| !ignored.contains(name));
    assert_eq!(found, listed);
}

fn listed_by_this_program(arguments: &[&str]) -> BTreeSet<String> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).args(arguments).output().expect("its list");
    let text = String::from_utf8(output.stdout).expect("names");
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// A promise, and the tests that follow it.
#[derive(Debug, PartialEq, Eq)]
struct Sentence {
    text: String,
    tests: Vec<String>,
}

impl Sentence {
    fn fault(&self) -> Option<String> {
        if self.text.is_empty() {
            return Some(format!("tests without a promise: {:?}", self.tests));
        }
        if self.tests.is_empty() {
            return Some(format!("no test is named: {}", self.text));
        }
        let more = ends(&self.text) > 1 || !self.text.ends_with(['.', ')']);
        more.then(|| format!("more or less than one sentence before its tests: {}", self.text))
    }
}

/// How many sentences a text has. What stands in brackets belongs to the sentence before.
fn ends(text: &str) -> usize {
    let mut outside = String::new();
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            letter if depth == 0 => outside.push(letter),
            _ => {}
        }
    }
    let words: Vec<&str> = outside.split_whitespace().collect();
    words.iter().filter(|word| word.ends_with(['.', '!', '?'])).count()
}

/// The sentences of a page: of its lists, and of whatever else stands below a heading that is not the page's own.
/// Those under `Not promised`, and above the first of these headings, promise nothing.
fn sentences(page: &str) -> Vec<Sentence> {
    let mut found: Vec<Sentence> = Vec::new();
    let mut counts = false;
    // Whether the next line of text goes on with the last sentence.
    let mut goes_on = false;
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            (counts, goes_on) = (heading.trim() != NOT_PROMISED, false);
            continue;
        }
        let text = line.trim();
        if !counts || text.is_empty() {
            goes_on = false;
            continue;
        }
        let begins = line.starts_with("- ");
        let tests = named(text);
        if !tests.is_empty() && !begins {
            goes_on = false;
            match found.last_mut() {
                Some(last) => last.tests.extend(tests),
                None => found.push(Sentence { text: String::new(), tests }),
            }
            continue;
        }
        let text = text.strip_prefix("- ").unwrap_or(text);
        match found.last_mut() {
            Some(last) if goes_on && !begins => last.text = format!("{} {text}", last.text),
            _ => found.push(Sentence { text: text.to_owned(), tests }),
        }
        goes_on = true;
    }
    found
}

/// The tests that a text names.
pub(super) fn named(text: &str) -> Vec<String> {
    let words = text.split('`').skip(1).step_by(2);
    words.filter(|word| word.contains(".rs::")).map(str::to_owned).collect()
}

/// The tests that run, as the docs name them.
pub(super) fn known(files: &[Source]) -> BTreeSet<String> {
    let tests = listed::tests(files);
    assert!(tests.len() > 500, "only {} tests found", tests.len());
    tests.iter().map(Listed::in_docs).collect()
}

/// Those of the tests that nobody runs.
pub(super) fn unknown(tests: &[String], known: &BTreeSet<String>) -> Vec<String> {
    let unknown = tests.iter().filter(|test| !known.contains(*test));
    unknown.map(|test| format!("no such test: {test}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rest: &str) -> Vec<Sentence> {
        sentences(&format!("# Page\n\nAn introduction. Of two.\n\n## A\n\n{rest}\n"))
    }

    fn faults(rest: &str) -> usize {
        page(rest).iter().filter_map(Sentence::fault).count()
    }

    #[test]
    fn a_sentence_goes_on_over_lines_and_ends_with_its_tests() {
        let found = page(
            "- One goes\n  on.\n  `a.rs::x`\n  `a.rs::y`\n  Two (in short. Or so).\n  `b.rs::z`\n- Three.\n  `c.rs::z`",
        );
        let expected = [
            ("One goes on.", &["a.rs::x", "a.rs::y"][..]),
            ("Two (in short. Or so).", &["b.rs::z"]),
            ("Three.", &["c.rs::z"]),
        ];
        assert_eq!(found.len(), expected.len());
        for (sentence, (text, tests)) in found.iter().zip(expected) {
            assert_eq!(
                (sentence.text.as_str(), &sentence.tests[..]),
                (text, &tests.map_owned()[..])
            );
            assert_eq!(sentence.fault(), None);
        }
    }

    #[test]
    fn a_sentence_without_a_test_of_its_own_is_told() {
        assert_eq!(faults("- One. Two.\n  `a.rs::x`"), 1);
        assert_eq!(faults("- One.\n- Two.\n  `a.rs::x`"), 1);
        assert_eq!(faults("- One.\n  `a.rs::x`\n  Two."), 1);
        assert_eq!(faults("- One, with no end\n  `a.rs::x`"), 1);
        assert_eq!(faults("And beside the list.\n\n- One.\n  `a.rs::x`"), 1);
        assert_eq!(faults("- One.\n  `a.rs::x`\n## Not promised\n- **Two.** Three."), 0);
    }

    trait Owned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl Owned for [&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }
}
