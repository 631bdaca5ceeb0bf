//! What is kept of the last hunt: `docs/mutants.md` for people, and the walk that found each made mutant out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::PathBuf,
};

use sha2::{Digest as _, Sha256};

use crate::{
    hunt::Kill,
    mutants::{self, Change, REASONS, made},
    scripts::Texts,
};

const HEAD: &str = "# Mutants

Scripts with one fault each. Each is put into the shipped scripts, on a real server, and must be found out by walks beside the
model (`tests/walk`, `tests/model`): model and server part, in an answer, in what is told, or in a byte that is left behind.

This page is written by `just mutants`, which hunts all of them; `just mutants claim.lua` hunts those of one file. Every run of
the tests hunts those that were written by hand, those of other queues, the made ones of each file that has changed since its
digest below, and thirty more; and it fails if one is not found out. A seed is that of the walk that found the fault: a run
tries it first, and others if the walks have changed since.

## Made by a program

`tests/mutants/made.rs` reads the Lua and makes a mutant of each place where it can: each condition negated; each check, or
each part of one, removed; each write to Redis or to what is gathered for it dropped; each pair of neighbouring writes
swapped; each early return removed.

| file | digest | negated | checks removed | writes dropped | swapped | returns removed | in all | found out | with a reason |
|---|---|---|---|---|---|---|---|---|---|
";

const REASONED: &str = "
## Those that no walk finds out

Because the script does the same without what was changed, or differs only where no caller and no fault of a walk leads; a few are
found out by another test. Why is in `tests/mutants/reasons.rs`: a mutant that is neither found out nor there fails the tests, and
so does one that is both.

| file | what was changed | why no walk finds it out |
|---|---|---|
";

const SEEN: &str = "
## Seen in other queues

Defects that other queues over Redis had, each written into a script (`tests/mutants/seen.rs`). A fence by id without generation
may also stand in a worker's memory: `crates/worker/src/held.rs::one_generation_of_an_id_is_not_taken_for_another` is about that.

| file | defect | seed | found at call |
|---|---|---|---|
";

const BY_HAND: &str = "
## Written by hand

Each in one check or one write (`tests/mutants`), mostly a limit or a word that is a little wrong. At least three stand in every
script's own file.

| file | what it does wrong | seed | found at call |
|---|---|---|---|
";

/// A mutant: its file and its name.
pub(crate) type Name = (String, String);

/// What the last hunt found.
#[derive(Default)]
pub(crate) struct Page {
    /// What each file was, when its made mutants were hunted.
    pub(crate) digests: BTreeMap<String, String>,
    pub(crate) made: BTreeMap<Name, Kill>,
    /// Those of other queues and those by hand.
    pub(crate) written: BTreeMap<Name, Kill>,
}

fn page() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mutants.md"))
}

fn seeds() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/mutants/seeds.tsv"))
}

/// The first digits of a text's SHA-256: enough to see a change.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Page {
    pub(crate) fn read() -> Self {
        let (text, table) = (fs::read_to_string(page()), fs::read_to_string(seeds()));
        let mut read = Self::default();
        for line in text.unwrap_or_default().lines() {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            if let [file, digest, ..] = cells[..]
                && cells.len() == 10
                && let Some(digest) = digest.strip_prefix('`').and_then(|it| it.strip_suffix('`'))
            {
                read.digests.insert(file.to_owned(), digest.to_owned());
            }
            read.written.extend(kill(&cells));
        }
        for line in table.unwrap_or_default().lines() {
            read.made.extend(kill(&line.split('\t').collect::<Vec<_>>()));
        }
        read
    }

    pub(crate) fn write(&self) -> std::io::Result<()> {
        let mut table = String::new();
        for ((file, name), Kill { seed, call }) in &self.made {
            let _ = writeln!(table, "{file}\t{name}\t{seed}\t{call}");
        }
        fs::write(seeds(), table)?;
        fs::write(page(), self.text())
    }

    /// Whether the page says what is kept here, and the reasons as they are now.
    pub(crate) fn stands(&self) -> bool {
        fs::read_to_string(page()).is_ok_and(|text| text == self.text())
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        let mut all = [0; 8];
        for (file, lua) in Texts::shipped().files() {
            let row = self.counts(file, lua);
            all.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
            let digest = self.digests.get(file).map_or("", String::as_str);
            let _ = writeln!(text, "| {file} | `{digest}` | {} |", cells(&row));
        }
        let _ = writeln!(text, "| all | | {} |", cells(&all));
        text += REASONED;
        for (file, name, why) in REASONS {
            let _ = writeln!(text, "| {file} | `{}` | {why} |", name.replace('|', "\\|"));
        }
        let mut rows = |head: &str, names: Vec<Name>| {
            text += head;
            for name in names {
                if let Some(Kill { seed, call }) = self.written.get(&name) {
                    let _ = writeln!(text, "| {} | {} | {seed} | {call} |", name.0, name.1);
                }
            }
        };
        rows(SEEN, mutants::SEEN.iter().map(mutants::Seen::name).collect());
        rows(BY_HAND, mutants::all().iter().map(mutants::Mutant::name).collect());
        text
    }

    /// How many mutants there are of each kind, and in all, and how many were found out, and how many never are.
    fn counts(&self, file: &str, lua: &str) -> [usize; 8] {
        let mutants = made::make(lua);
        let mut row = [0; 8];
        for (count, change) in row.iter_mut().zip(Change::ALL) {
            *count = mutants.iter().filter(|it| it.change == change).count();
        }
        row[5] = mutants.len();
        row[6] = self.made.keys().filter(|(of, _)| of == file).count();
        row[7] = REASONS.iter().filter(|(of, ..)| *of == file).count();
        row
    }

    /// Whether the made mutants of a file were hunted as it is.
    pub(crate) fn knows(&self, file: &str, text: &str) -> bool {
        self.digests.get(file).is_some_and(|kept| *kept == digest(text))
    }

    /// What is kept of a file's made mutants is replaced by what was found now.
    pub(crate) fn replace(&mut self, file: &str, text: &str, found: &BTreeMap<Name, Kill>) {
        self.made.retain(|(of, _), _| of != file);
        let ours = found.iter().filter(|((of, _), _)| of == file);
        self.made.extend(ours.map(|(name, kill)| (name.clone(), *kill)));
        self.digests.insert(file.to_owned(), digest(text));
    }

    /// What is kept of mutants that are no longer made.
    pub(crate) fn left_over(&self, made: &BTreeSet<Name>) -> Vec<Name> {
        self.made.keys().filter(|name| !made.contains(*name)).cloned().collect()
    }
}

fn cells(row: &[usize]) -> String {
    row.iter().map(usize::to_string).collect::<Vec<_>>().join(" | ")
}

/// A row of file, name, seed and call.
fn kill(cells: &[&str]) -> Option<(Name, Kill)> {
    let [file, name, seed, call] = cells[..] else { return None };
    let kill = Kill { seed: seed.parse().ok()?, call: call.parse().ok()? };
    Some(((file.to_owned(), name.to_owned()), kill))
}
