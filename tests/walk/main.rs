//! The walks that hold the shipped scripts to the executable model of the protocol, `tests/model`.
//!
//! # Reading order
//!
//! 1. [`draw`], [`world`]: which calls are made, and what happens between them.
//! 2. [`walk`]: scripts and model in step, compared after each.
//! 3. [`redis`], [`server`], [`scripts`]: the real ones.
//! 4. [`mutants`], [`hunt`], [`hunted`]: scripts with one fault each, which the walks must find.
//!
//! `HOLDFAST_SEED=7` walks one walk again, `HOLDFAST_STEPS=1000000` as many steps as are wanted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod dice;
mod draw;
mod fault;
mod fleet;
mod hunt;
mod hunted;
#[path = "../mutants/list.rs"]
mod mutants;
mod page;
mod redis;
mod scripts;
mod server;
mod shrink;
mod stage;
mod walk;
mod world;

use std::time::Instant;

use crate::{
    fault::Fault,
    fleet::Servers,
    scripts::{SCRIPTS, Texts},
    stage::Tally,
};

/// How many steps every test run makes.
const STEPS: usize = 100_000;

/// A number from the environment, for a longer walk or one that is walked again.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn the_scripts_do_what_the_model_does() {
    let (began, mut tally) = (Instant::now(), Tally::default());
    let steps = number("HOLDFAST_STEPS").map_or(STEPS, |steps| steps as usize);
    let went = match number("HOLDFAST_SEED") {
        Some(seed) => fleet::one(&mut Servers::default(), seed, &mut tally).map(|()| tally),
        None => fleet::until(steps),
    };
    let tally = went.unwrap_or_else(|parted| panic!("{parted}"));
    println!("{} steps, {:.1} s", tally.steps, began.elapsed().as_secs_f64());
    for ((script, word), count) in tally.answers.iter().chain(&tally.faults) {
        println!("{script:10} {word:20} {count:8}");
    }
    if tally.steps >= STEPS {
        every_answer_was_given(&tally);
    }
}

/// What no walk meets, since none makes a counter hold no number: tests/scripts/invariants/loss.rs does.
const NEVER: (&str, &str) = ("submit", "spoiled");

/// A walk that never meets an answer proves nothing about it, nor about a fault.
fn every_answer_was_given(tally: &Tally) {
    let texts = Texts::shipped();
    for script in SCRIPTS {
        for word in scripts::answers(texts.file(script)) {
            let given = tally.answers.contains_key(&(script, word));
            assert!(given || (script, word) == NEVER, "{script} never answered {word:?}");
        }
    }
    let met = |fault: &str| tally.faults.keys().any(|(_, word)| *word == fault);
    for fault in Fault::ALL.map(Fault::word).into_iter().chain(stage::CRASHES) {
        assert!(met(fault), "no call ever met this: {fault}");
    }
}

#[test]
fn the_texts_that_are_walked_are_those_that_the_core_ships() {
    let texts = Texts::shipped();
    let shipped = holdfast_core::script::all();
    assert_eq!(shipped.len(), SCRIPTS.len());
    for script in shipped {
        assert_eq!(texts.script(script.name), script.text, "{}", script.name);
    }
}
