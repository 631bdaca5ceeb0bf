//! Walks with scripts that have one fault each: every mutant must be found out.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use crate::{
    mutants::{self, Mutant},
    scripts::{SCRIPTS, Texts},
    server::Server,
    walk::{Plan, Tally, walk},
};

/// How many walks a mutant may survive, and how long each is.
const WALKS: u64 = 300;
const STEPS: usize = 40;

const HEAD: &str = "# Mutants

Faults that were written into the scripts by hand, each in one check or one write (`tests/mutants`). Every test run puts
each of them in turn into the scripts, walks with the result beside the model (`tests/model`), and fails if model and server
do not part. At least three stand in every script's own file.

Written by `HOLDFAST_TABLE=write cargo test -p holdfast-tests --test walk every_mutant_is`. The seed is the one of the walk
that found the fault out: a run tries it first, and others if the walks have changed since.

| file | what it does wrong | seed | found at call |
|---|---|---|---|
";

/// Where a mutant was found out.
#[derive(Clone, Copy)]
struct Kill {
    seed: u64,
    call: usize,
}

/// Hunts every mutant. Gives the page that tells where each was found, and the survivors.
pub(crate) fn hunt(server: &mut Server) -> (String, Vec<String>) {
    let (shipped, known) = (Texts::shipped(), seeds());
    let (mut page, mut survivors) = (HEAD.to_owned(), Vec::new());
    server.load(&shipped);
    for mutant in mutants::all() {
        let name = mutant.name();
        let texts = shipped.with(mutant.file, mutant.find, mutant.put);
        let texts = texts.unwrap_or_else(|drift| panic!("{name}: {drift}"));
        let shared = mutant.file.starts_with("lib/");
        let changed = |script: &&'static str| shared || mutant.file == format!("{script}.lua");
        SCRIPTS.into_iter().filter(changed).for_each(|script| server.load_one(&texts, script));
        match find(server, &mutant, known.get(&name).copied()) {
            Some(Kill { seed, call }) => drop(writeln!(page, "{name}{seed} | {call} |")),
            None => survivors.push(name),
        }
        SCRIPTS.into_iter().filter(changed).for_each(|script| server.load_one(&shipped, script));
    }
    (page, survivors)
}

fn find(server: &mut Server, mutant: &Mutant, first: Option<u64>) -> Option<Kill> {
    let Mutant { script, slant, .. } = *mutant;
    let mut tally = Tally::new();
    first.into_iter().chain(0..WALKS).find_map(|seed| {
        let plan = Plan { seed, steps: STEPS, favourite: Some(script), slant };
        let parted = walk(server, &mut tally, plan).err()?;
        Some(Kill { seed, call: parted.call })
    })
}

impl Mutant {
    /// The row of the table, as far as it names the mutant.
    fn name(&self) -> String {
        format!("| {} | {} | ", self.file, self.fault)
    }
}

/// Where the page lies that tells of the last hunt.
pub(crate) fn page() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mutants.md"))
}

/// The seeds that the page names, by mutant.
fn seeds() -> BTreeMap<String, u64> {
    let text = fs::read_to_string(page()).unwrap_or_default();
    let row = |line: &str| {
        let (rest, _call) = line.strip_suffix(" |")?.rsplit_once(" | ")?;
        let (name, seed) = rest.rsplit_once(" | ")?;
        Some((format!("{name} | "), seed.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

/// What is wrong with the list: texts that no longer stand in their file exactly once, scripts with fewer than three
/// mutants, mutants that the page does not tell of.
pub(crate) fn wrongs() -> Vec<String> {
    let (shipped, known) = (Texts::shipped(), seeds());
    let mut wrongs = Vec::new();
    for mutant in mutants::all() {
        let name = mutant.name();
        wrongs.extend(
            shipped
                .with(mutant.file, mutant.find, mutant.put)
                .err()
                .map(|err| format!("{name}{err}")),
        );
        wrongs
            .extend((!known.contains_key(&name)).then(|| format!("{name}not in docs/mutants.md")));
    }
    for script in SCRIPTS {
        let count = mutants::all().iter().filter(|it| it.file == format!("{script}.lua")).count();
        wrongs.extend((count < 3).then(|| format!("{script}: {count} mutants, not three")));
    }
    wrongs
}
