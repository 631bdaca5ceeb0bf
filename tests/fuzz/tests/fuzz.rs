//! Every target over the inputs that are kept for it, and over as many changed ones as `HOLDFAST_ROUNDS` says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use holdfast_fuzz::{TARGETS, Target, corpus, mutate::Mutator};

/// Changed inputs of a target.
const ROUNDS: u64 = 5_000;

#[test]
fn every_target_has_inputs_and_all_inputs_have_a_target() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(corpus::folders(), names);
    for name in names {
        assert!(!corpus::kept(name).is_empty(), "nothing is kept for {name}");
    }
}

#[test]
fn no_kept_input_breaks_a_rule() {
    let broken = chosen().into_iter().flat_map(|target| {
        let kept = corpus::kept(target.name).into_iter();
        kept.filter_map(|(name, bytes)| fault(target, &bytes, &name)).collect::<Vec<_>>()
    });
    none(broken.collect());
}

#[test]
fn no_changed_input_breaks_a_rule() {
    let (seed, rounds) = (number("HOLDFAST_SEED", 1), number("HOLDFAST_ROUNDS", ROUNDS));
    let broken = chosen().into_iter().filter_map(|target| {
        let began = Instant::now();
        let kept: Vec<Vec<u8>> =
            corpus::kept(target.name).into_iter().map(|(_, bytes)| bytes).collect();
        let mut mutator = Mutator::new(seed, &kept, target.words);
        let mut broken = (1..=rounds).filter_map(|round| {
            fault(target, &mutator.input(), &format!("HOLDFAST_SEED={seed}, round {round}"))
        });
        let first = broken.next();
        println!("{:16} {rounds} inputs, {:.1} s", target.name, began.elapsed().as_secs_f64());
        first
    });
    none(broken.collect());
}

/// Runs a target, and says what it was given if it panics.
fn fault(target: &Target, bytes: &[u8], which: &str) -> Option<String> {
    let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    ran.is_err()
        .then(|| format!("{} ({which}) panics at b\"{}\"", target.name, bytes.escape_ascii()))
}

fn none(broken: Vec<String>) {
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// All targets, or the one that `HOLDFAST_FUZZ` names.
fn chosen() -> Vec<&'static Target> {
    let name = std::env::var("HOLDFAST_FUZZ").ok();
    let wanted = |target: &&Target| name.as_deref().is_none_or(|name| name == target.name);
    let chosen: Vec<&Target> = TARGETS.iter().filter(wanted).collect();
    assert!(!chosen.is_empty(), "HOLDFAST_FUZZ names no target");
    chosen
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a whole number"))
}
