//! The files of the project, as the rules read them.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of the project.
pub(super) struct Source {
    /// Where it lies, from the root, with `/` between folders.
    pub(super) path: String,
    /// What stands in it; empty if it is no text.
    pub(super) text: String,
}

impl Source {
    /// Whether its name ends with one of these.
    pub(super) fn is_one_of(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    /// The lines that ship: no comments, no unit tests.
    ///
    /// Unit tests stand in a module `tests`, at the end of a file or in one of its own.
    pub(super) fn shipped(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.path.ends_with("/tests.rs") || self.path.contains("/tests/");
        self.text
            .lines()
            .take_while(move |line| !is_test && *line != "mod tests {")
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(at, line)| (at + 1, line))
    }
}

/// The text of one file.
pub(super) fn text_of(files: &[Source], path: &str) -> String {
    let found = files.iter().find(|file| file.path == path);
    found.unwrap_or_else(|| panic!("{path} is missing")).text.clone()
}

/// The folder that holds the workspace.
pub(super) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the root").to_owned()
}

/// The names at the top, without what git is told to ignore.
pub(super) fn top() -> Vec<String> {
    let ignored = fs::read_to_string(root().join(".gitignore")).unwrap();
    let ignored: Vec<&str> = ignored.lines().filter_map(|line| line.strip_prefix('/')).collect();
    let mut names: Vec<String> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".git" && !ignored.contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

/// Every file of the project.
pub(super) fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> = top().iter().map(|name| root().join(name)).collect();
    while let Some(path) = waiting.pop() {
        if !path.is_dir() {
            found.push(read(&path));
        } else if !path.ends_with("__pycache__") {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn read(path: &Path) -> Source {
    let relative = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let bytes = fs::read(path).unwrap_or_else(|err| panic!("{relative}: {err}"));
    Source { path: relative, text: String::from_utf8(bytes).unwrap_or_default() }
}
