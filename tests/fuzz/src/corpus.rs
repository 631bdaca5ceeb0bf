//! The inputs that are kept, a folder a target.

use std::fs;
use std::path::{Path, PathBuf};

/// An input, and the name of its file.
pub type Kept = (String, Vec<u8>);

/// Where the inputs of a target are kept.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs of a target, by their names.
pub fn kept(target: &str) -> Vec<Kept> {
    let folder = folder(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|err| panic!("{folder:?}: {err}"));
    let mut kept: Vec<Kept> = entries
        .map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            (name, fs::read(entry.path()).expect("a kept input"))
        })
        .collect();
    kept.sort();
    kept
}

/// The targets that have a folder.
pub fn folders() -> Vec<String> {
    let all = folder("");
    let entries = fs::read_dir(&all).unwrap_or_else(|err| panic!("{all:?}: {err}"));
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8"))
        .collect();
    names.sort();
    names
}
