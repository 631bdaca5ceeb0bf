//! The family of configurations: each small, each explored to its end.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

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
    suspects: false,
    damaged: false,
    rules: Rules::ALL,
};

/// What is explored in every test run.
const SMALL: &[Bounds] = &[
    Bounds { name: "1 id, 1 worker, the clock steps", leaps: true, crashes: true, ..PLAIN },
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
        name: "1 id, 1 worker that leaves a settle behind",
        behind: 1,
        crashes: true,
        late: true,
        cancels: true,
        ..PLAIN
    },
    Bounds {
        name: "1 id, 1 worker, Redis forgets, 2 faults",
        late: true,
        faults: Some(2),
        forgets: true,
        ..SHORT
    },
    Bounds {
        name: "2 ids, 2 workers, 1 fault",
        ids: 2,
        workers: 2,
        faults: Some(1),
        crashes: true,
        late: true,
        ..SHORT
    },
];

/// A deadline as near as it can be without hiding a lease, a lapse and another lease.
const SHORT: Bounds = Bounds { life: 3 * UNIT, ..PLAIN };

/// What is explored on demand, the longest first.
const FULL: &[Bounds] = &[
    Bounds {
        name: "1 id, 2 workers, 2 attempts, Redis forgets once, all other faults too",
        workers: 2,
        crashes: true,
        late: true,
        forgets: true,
        ..SHORT
    },
    Bounds {
        name: "1 id, 2 workers, 2 generations, 3 attempts, all faults of workers and network",
        workers: 2,
        generations: 2,
        attempts: 3,
        other_bytes: true,
        crashes: true,
        late: true,
        cancels: true,
        operators: true,
        ..SHORT
    },
    Bounds {
        name: "2 ids, 2 workers, 2 attempts, 3 faults",
        ids: 2,
        workers: 2,
        faults: Some(3),
        crashes: true,
        late: true,
        ..SHORT
    },
    Bounds {
        name: "1 id, 2 workers, 2 attempts, the clock steps once, 3 faults",
        workers: 2,
        faults: Some(3),
        crashes: true,
        late: true,
        leaps: true,
        ..SHORT
    },
];

/// Explores these, two at a time, and tells of each.
fn explore(family: &[Bounds]) {
    println!(
        "| what | states | steps | depth | s | ends within | |\n|---|---|---|---|---|---|---|"
    );
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let explore_some = || {
        while let Some(bounds) = family.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = search(*bounds, World::new(bounds), true);
            report(bounds, &found);
            broken.lock().unwrap().extend(found.broken);
        }
    };
    thread::scope(|scope| {
        scope.spawn(explore_some);
        scope.spawn(explore_some);
    });
    let broken = broken.into_inner().unwrap();
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
    let full = if is_full() { FULL } else { &[] };
    explore(&[full, SMALL].concat());
}

/// Whether all is explored, also what takes minutes.
fn is_full() -> bool {
    std::env::var("HOLDFAST_MODEL").is_ok_and(|word| word == "full")
}
