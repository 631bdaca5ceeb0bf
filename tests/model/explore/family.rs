//! The family of configurations: each small, each explored to its end.

use holdfast_model::rules::Rules;

use crate::{
    live::STEPS,
    search::{Found, search},
    world::{Bounds, UNIT, World},
};

/// Nothing but a queue, a worker and a reclaimer.
pub(crate) const PLAIN: Bounds = Bounds {
    name: "plain",
    ids: 1,
    workers: 1,
    generations: 1,
    attempts: 2,
    max_lapses: 3,
    slots: 1,
    behind: 0,
    life: 4 * UNIT,
    faults: None,
    crashes: false,
    late: false,
    leaps: false,
    forgets: false,
    other_bytes: false,
    cancels: false,
    operators: false,
    pauses: false,
    reclaimed: 256,
    reclaims: true,
    damaged: false,
    rules: Rules::ALL,
};

/// What is explored in every test run: a minute in all.
const SMALL: &[Bounds] = &[
    Bounds {
        name: "1 id, 2 workers, crashes, late copies, cancels",
        workers: 2,
        crashes: true,
        late: true,
        cancels: true,
        ..PLAIN
    },
    Bounds {
        name: "1 id, 1 worker, 2 generations, operators, other bytes",
        generations: 2,
        other_bytes: true,
        cancels: true,
        operators: true,
        max_lapses: 2,
        ..PLAIN
    },
    Bounds {
        name: "2 ids, 2 workers, 1 fault",
        ids: 2,
        workers: 2,
        faults: Some(1),
        crashes: true,
        late: true,
        life: 3 * UNIT,
        ..PLAIN
    },
    Bounds {
        name: "1 id, 1 worker, Redis forgets",
        late: true,
        faults: Some(1),
        forgets: true,
        life: 3 * UNIT,
        ..PLAIN
    },
    Bounds { name: "1 id, 1 worker, the clock steps", leaps: true, crashes: true, ..PLAIN },
];

/// What is explored on demand.
const FULL: &[Bounds] = &[
    Bounds {
        name: "1 id, 2 workers, 2 attempts, Redis forgets, 2 faults",
        workers: 2,
        late: true,
        faults: Some(2),
        forgets: true,
        life: 3 * UNIT,
        ..PLAIN
    },
    Bounds {
        name: "2 ids, 2 workers, 2 attempts, 3 faults",
        ids: 2,
        workers: 2,
        faults: Some(3),
        crashes: true,
        late: true,
        life: 3 * UNIT,
        ..PLAIN
    },
    Bounds {
        name: "1 id, 2 workers, 2 generations, 3 attempts, all faults",
        workers: 2,
        generations: 2,
        attempts: 3,
        max_lapses: 2,
        crashes: true,
        late: true,
        cancels: true,
        operators: true,
        life: 3 * UNIT,
        ..PLAIN
    },
];

/// Explores these, and tells of each.
fn explore(family: &[Bounds]) {
    println!(
        "| what | states | steps | depth | s | ends within | |\n|---|---|---|---|---|---|---|"
    );
    let mut broken = Vec::new();
    for bounds in family {
        let found = search(*bounds, World::new(bounds), true);
        report(bounds, &found);
        broken.extend(found.broken);
    }
    for (name, way) in &broken {
        println!("{name}, after:");
        way.iter().for_each(|step| println!("  {step:?}"));
    }
    assert!(broken.is_empty(), "see above");
}

fn report(bounds: &Bounds, found: &Found) {
    let Found { states, steps, depth, seconds, rounds, broken } = found;
    let within = usize::from(*rounds) * STEPS;
    let end = if broken.is_empty() { "complete" } else { "BROKEN" };
    let name = bounds.name;
    println!("| {name} | {states} | {steps} | {depth} | {seconds:.1} | {within} steps | {end} |");
}

#[test]
fn the_family_is_complete() {
    explore(SMALL);
    if std::env::var("HOLDFAST_MODEL").is_ok_and(|word| word == "full") {
        explore(FULL);
    }
}

#[test]
fn scratch() {
    let Ok(words) = std::env::var("SCRATCH") else { return };
    let mut bounds = PLAIN;
    for word in words.split(',') {
        let (name, number) = word.split_once('=').unwrap_or((word, "1"));
        let number: u64 = number.parse().unwrap();
        match name {
            "ids" => bounds.ids = number as u8,
            "workers" => bounds.workers = number as u8,
            "generations" => bounds.generations = number as u32,
            "attempts" => bounds.attempts = number as u32,
            "lapses" => bounds.max_lapses = number as u16,
            "slots" => bounds.slots = number,
            "behind" => bounds.behind = number,
            "life" => bounds.life = number * UNIT,
            "faults" => bounds.faults = Some(number as u8),
            "crashes" => bounds.crashes = true,
            "late" => bounds.late = true,
            "leaps" => bounds.leaps = true,
            "forgets" => bounds.forgets = true,
            "other" => bounds.other_bytes = true,
            "cancels" => bounds.cancels = true,
            "operators" => bounds.operators = true,
            _ => panic!("{name}"),
        }
    }
    explore(&[bounds]);
}
