//! The tests of the mutants: which are hunted when, and what must become of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use crate::{
    dice::Dice,
    hunt::{Kill, Prey, hunt},
    mutants::{self, REASONS, made},
    page::{Name, Page, digest},
    scripts::{SCRIPTS, Texts},
    world::Slant,
};

/// How many made mutants of unchanged files are hunted in every run.
const SOME: usize = 30;
/// In which circumstances a made mutant may show.
const SLANTS: [Option<Slant>; 10] = [
    None,
    Some(Slant::Mistyped),
    Some(Slant::Crowded),
    Some(Slant::Spoiled),
    Some(Slant::Damaged),
    Some(Slant::Worn),
    None,
    Some(Slant::Mistyped),
    Some(Slant::Crowded),
    Some(Slant::Tight),
];

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn writes_the_page() -> bool {
    env("HOLDFAST_TABLE").is_some_and(|word| word == "write")
}

/// Those that were written by hand, here or into other queues.
fn written(shipped: &Texts, page: &Page) -> Result<Vec<Prey>, String> {
    let mut prey = Vec::new();
    for mutant in mutants::all() {
        let texts = shipped.with(mutant.file, mutant.find, mutant.put)?;
        prey.push((mutant.name(), texts, vec![mutant.script], mutant.slant));
    }
    for seen in mutants::SEEN {
        let edit = |texts: Texts, (find, put): &(&str, &str)| texts.with(seen.file, find, put);
        let texts = seen.edits.iter().try_fold(shipped.clone(), edit)?;
        prey.push((seen.name(), texts, seen.scripts.to_vec(), seen.slant));
    }
    let prey = prey.into_iter().map(|((file, name), texts, scripts, slant)| {
        let first = page.written.get(&(file.clone(), name.clone())).map(|kill| kill.seed);
        Prey { file, name, texts, scripts, slants: vec![slant], first, reasoned: false }
    });
    Ok(prey.collect())
}

/// The made ones of one file.
fn made_of(shipped: &Texts, page: &Page, file: &str, text: &str) -> Vec<Prey> {
    let one = |made: made::Made| {
        let scripts = match (file.strip_suffix(".lua"), &made.function) {
            (Some(script), _) if SCRIPTS.contains(&script) => {
                SCRIPTS.into_iter().filter(|it| *it == script).collect()
            }
            (_, Some(function)) => users(shipped, function),
            _ => SCRIPTS.to_vec(),
        };
        let texts = shipped.with_file(file, &made.text);
        let name = (file.to_owned(), made.name);
        let first = page.made.get(&name).map(|kill| kill.seed);
        let (mut slants, reasoned) = (SLANTS.to_vec(), reason(&name).is_some());
        if !["claim.lua", "lib/upkeep.lua"].contains(&file) {
            // The limits of upkeep are reached in a crowd only, and all else sooner without.
            let others = [Slant::Spoiled, Slant::Damaged].map(Some).into_iter().cycle();
            let crowds = slants.iter_mut().filter(|slant| **slant == Some(Slant::Crowded));
            crowds.zip(others).for_each(|(crowd, other)| *crowd = other);
        }
        Prey { file: name.0, name: name.1, texts, scripts, slants, first, reasoned }
    };
    made::make(text).into_iter().map(one).collect()
}

/// The scripts that use a function of the libraries, by themselves or by another function.
fn users(shipped: &Texts, function: &str) -> Vec<&'static str> {
    let mut functions = BTreeMap::new();
    for (_, text) in shipped.files().filter(|(file, _)| file.starts_with("lib/")) {
        functions.extend(made::named(text));
    }
    let uses = |script: &&'static str| {
        let own = made::named(shipped.file(script)).into_values().flatten();
        let mut reached: BTreeSet<String> = own.collect();
        loop {
            let more = reached.iter().filter_map(|name| functions.get(name)).flatten().cloned();
            let more: BTreeSet<String> = more.chain(reached.iter().cloned()).collect();
            if more.len() == reached.len() {
                return reached.contains(function);
            }
            reached = more;
        }
    };
    SCRIPTS.into_iter().filter(uses).collect()
}

fn reason(name: &Name) -> Option<&'static str> {
    let reason = REASONS.iter().find(|(file, what, _)| (*file, *what) == (&*name.0, &*name.1));
    reason.map(|(.., why)| *why)
}

/// Hunts them, and gives those that were found out, and what is wrong with the fates.
fn judged(prey: &[Prey]) -> (BTreeMap<Name, Kill>, Vec<String>) {
    let (mut found, mut wrongs) = (BTreeMap::new(), Vec::new());
    for (one, fate) in prey.iter().zip(hunt(prey)) {
        let name = (one.file.clone(), one.name.clone());
        match (fate, reason(&name)) {
            (Some(_), Some(_)) => {
                wrongs.push(format!("{name:?}: found out, though it has a reason"))
            }
            (None, None) => wrongs.push(format!("{name:?}: not found out")),
            _ => {}
        }
        found.extend(fate.map(|kill| (name, kill)));
    }
    (found, wrongs)
}

#[test]
fn every_mutant_has_its_place_in_a_script_and_each_survivor_its_reason() {
    if writes_the_page() {
        return;
    }
    let (shipped, page) = (Texts::shipped(), Page::read());
    let mut wrongs = Vec::new();
    for prey in written(&shipped, &page).expect("each text stands in its file once") {
        let missing = prey.first.is_none();
        wrongs.extend(missing.then(|| format!("{}: {} is not on its page", prey.file, prey.name)));
    }
    let (mut all, mut counts) = (BTreeSet::new(), BTreeMap::<_, usize>::new());
    for (file, text) in shipped.files() {
        for prey in made_of(&shipped, &page, file, text) {
            prey.scripts.iter().for_each(|script| *counts.entry(*script).or_default() += 1);
            let name = (prey.file, prey.name);
            let kept = (page.made.contains_key(&name), reason(&name).is_some());
            if page.knows(file, text) && kept.0 == kept.1 {
                wrongs.push(format!("{name:?}: found out {}, has a reason {}", kept.0, kept.1));
            }
            all.insert(name);
        }
    }
    let known = shipped.files().all(|(file, text)| page.knows(file, text));
    wrongs.extend((known && !page.stands()).then(|| "the page says other reasons".to_owned()));
    wrongs.extend(page.left_over(&all).iter().map(|name| format!("{name:?} is no longer made")));
    for (file, name, _) in REASONS {
        let there = all.contains(&((*file).to_owned(), (*name).to_owned()));
        wrongs.extend((!there).then(|| format!("a reason for {file} {name}, which is not made")));
    }
    for script in SCRIPTS {
        let own = mutants::all().iter().filter(|it| it.file == format!("{script}.lua")).count();
        let made = counts.get(script).copied().unwrap_or(0);
        wrongs.extend((own < 3 || made < 8).then(|| format!("{script}: {own} and {made} mutants")));
    }
    assert!(wrongs.is_empty(), "`just mutants` writes the page anew:\n{}", wrongs.join("\n"));
}

#[test]
fn every_written_mutant_is_found_out() {
    let (began, mut page) = (Instant::now(), Page::read());
    let prey = written(&Texts::shipped(), &page).expect("each text stands in its file once");
    let (found, wrongs) = judged(&prey);
    println!("{} written mutants, {:.1} s", prey.len(), began.elapsed().as_secs_f64());
    if writes_the_page() {
        let _page = PAGE.lock();
        page = Page::read();
        page.written = found;
        page.write().expect("the page");
    }
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

/// The page is written by one test at a time.
static PAGE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn the_made_mutants_of_changed_files_and_thirty_others_are_found_out() {
    let (began, shipped, page) = (Instant::now(), Texts::shipped(), Page::read());
    let asked = env("HOLDFAST_MUTANTS");
    let whole: Vec<(&str, &str)> = shipped
        .files()
        .filter(|(file, text)| match asked.as_deref() {
            Some("all") => true,
            Some(asked) => asked == *file,
            None => !page.knows(file, text),
        })
        .collect();
    let of = |(file, text): &(&str, &str)| made_of(&shipped, &page, file, text);
    let mut prey: Vec<Prey> = whole.iter().flat_map(of).collect();
    if asked.is_none() {
        prey.extend(some(&shipped, &page));
    }
    let (found, wrongs) = judged(&prey);
    println!("{} made mutants, {:.1} s", prey.len(), began.elapsed().as_secs_f64());
    if writes_the_page() {
        let _page = PAGE.lock();
        let mut page = Page::read();
        whole.iter().for_each(|(file, text)| page.replace(file, text, &found));
        page.write().expect("the page");
    }
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

/// Some of those that were found out before, others whenever a script changes.
fn some(shipped: &Texts, page: &Page) -> Vec<Prey> {
    let texts: String = shipped.files().map(|(_, text)| text).collect();
    let seed = env("HOLDFAST_SEED").and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from_str_radix(&digest(&texts), 16).unwrap_or(0));
    let known = shipped.files().filter(|(file, text)| page.knows(file, text));
    let mut left: Vec<Prey> = known
        .flat_map(|(file, text)| made_of(shipped, page, file, text))
        .filter(|prey| prey.first.is_some())
        .collect();
    let mut dice = Dice::new(seed);
    println!("HOLDFAST_SEED={seed}");
    let count = SOME.min(left.len());
    (0..count).map(|_| left.swap_remove(dice.below(left.len()))).collect()
}
