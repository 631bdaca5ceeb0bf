//! The shipped Lua, read from its files and put together as the core does it; one text of it can be replaced.

use std::{collections::BTreeMap, fs, path::Path};

pub(crate) const SCRIPTS: [&str; 17] = [
    "submit", "claim", "renew", "settle", "cancel", "redrive", "reclaim", "promote", "expire",
    "sweep", "read", "policy", "overrule", "register", "ring", "depth", "audit",
];
const LIBS: [&str; 6] = ["ticket", "home", "ending", "upkeep", "beat", "rights"];

/// The texts as they lie in the core's folder, by file name.
#[derive(Clone)]
pub(crate) struct Texts(BTreeMap<String, String>);

impl Texts {
    pub(crate) fn shipped() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/core/lua");
        let scripts = SCRIPTS.iter().map(|name| format!("{name}.lua"));
        let names = scripts.chain(LIBS.iter().map(|name| format!("lib/{name}.lua")));
        let read = |name: String| {
            let text = fs::read_to_string(folder.join(&name))
                .unwrap_or_else(|err| panic!("{name}: {err}"));
            (name, text)
        };
        Self(names.map(read).collect())
    }

    /// The same with `find`, which must stand in the file exactly once, replaced.
    pub(crate) fn with(&self, file: &str, find: &str, put: &str) -> Result<Self, String> {
        let mut texts = self.clone();
        let text = texts.0.get_mut(file).ok_or(format!("no file {file}"))?;
        match text.matches(find).count() {
            1 => *text = text.replacen(find, put, 1),
            found => return Err(format!("{file}: found {found} times, not once: {find}")),
        }
        Ok(texts)
    }

    /// The same with a whole file replaced.
    pub(crate) fn with_file(&self, file: &str, text: &str) -> Self {
        let mut texts = self.clone();
        texts.0.insert(file.to_owned(), text.to_owned());
        texts
    }

    /// The files, by their names.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// A script as it is kept.
    pub(crate) fn file(&self, script: &str) -> &str {
        &self.0[&format!("{script}.lua")]
    }

    /// A script as it is loaded: its first line, the libraries, the rest.
    pub(crate) fn script(&self, name: &str) -> String {
        let (first, rest) = self.file(name).split_once('\n').expect("a first line");
        let libs = LIBS.map(|lib| self.0[&format!("lib/{lib}.lua")].as_str());
        format!("{first}\n{}{rest}", holdfast_core::script::needed(rest, &libs))
    }
}

/// The names of a script's keys, in the order that its header gives them.
pub(crate) fn keys(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| line.starts_with("KEYS["));
    lines.filter_map(|line| line.split_whitespace().nth(1)).collect()
}

/// The words that a script's header says it answers with: each at the head of its line, bare or before what comes with it.
pub(crate) fn answers(text: &str) -> Vec<&str> {
    let returns = text.split_once("\nReturns ").expect("a header").1;
    let returns = returns.split_once("\nHolds").expect("a header").0;
    returns.lines().filter_map(word_at_head).collect()
}

fn word_at_head(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("{'").or_else(|| line.strip_prefix('\''))?.split('\'').next()
}
