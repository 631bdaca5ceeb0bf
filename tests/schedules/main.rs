//! The shipped worker and reclaimer under scripted clocks, networks and gateways.
//!
//! A play runs the code that is shipped, client library and all, on one thread whose clock goes on only when nobody has
//! anything left to do. Redis is the model that the walk holds the scripts to; it speaks over real sockets, and the
//! schedule loses, delays and cuts what passes there, lets calls run late, stalls the processes, lets Redis go down and
//! forget. Whatever a worker then asks is held against what it had heard: `mind` has the worker's duties as checks.
//!
//! # Reading order
//!
//! 1. [`clock`]: how time passes. 2. [`plan`], [`fate`]: what happens. 3. [`mind`]: what must hold. 4. [`world`], [`redis`],
//!    [`resp`], [`heard`], [`told`]: Redis. 5. [`gateway`], [`stage`], [`play`]: the rest. 6. [`shorten`]: which story is told.
//!
//! `HOLDFAST_SEED=7` plays one schedule again and tells its story, `HOLDFAST_PLAYS=100000` plays as many as are wanted. A
//! seed fixes the schedule; the pauses that the roles draw for themselves it does not, so what one seed shows is shown by
//! the most of its plays and not always by the first.
// The roles' futures lie in each other deeper than the compiler goes by itself.
#![recursion_limit = "256"]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod clock;
#[allow(dead_code, reason = "the walk draws more")]
#[path = "../walk/dice.rs"]
mod dice;
mod fate;
mod gateway;
mod heard;
mod mind;
mod plan;
mod play;
mod redis;
mod resp;
mod shorten;
mod stage;
mod told;
mod world;

use std::time::Instant;

use fate::{Family, Faults};
use plan::Plan;
use play::Wrong;
use shorten::shorten;

/// How many plays a family has, where nobody says more: CI plays 1,000, which take a minute of two cores.
const PLAYS: u64 = 200;

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn all(family: Family) {
    let (began, one) = (Instant::now(), number("HOLDFAST_SEED"));
    let plays = number("HOLDFAST_PLAYS").unwrap_or(if one.is_some() { 1 } else { PLAYS });
    for play in 0..plays {
        let seed = one.unwrap_or(play);
        let plan = Plan::draw(family, seed);
        match play::play(&plan) {
            Ok(story) if one.is_some() => print!("{story}"),
            Ok(_) => {}
            Err(wrong) => fails(&plan, wrong, one.is_some()),
        }
    }
    println!("{family:?}: {plays} plays, {:.1} s", began.elapsed().as_secs_f64());
}

/// Tells the shortest story that ends as badly.
fn fails(plan: &Plan, wrong: Wrong, tells_all: bool) -> ! {
    if tells_all {
        println!("{}\n{}", wrong.what, wrong.story);
    }
    let Faults { seed, family, .. } = &plan.faults;
    let (what, before) = (wrong.what.clone(), wrong.faults.len());
    let Wrong { story, faults, .. } = shorten(plan, wrong, play::play);
    panic!(
        "HOLDFAST_SEED={seed} of {family:?}: {what}\nIts shortest story has {} of {before} faults:\n{story}",
        faults.len()
    );
}

#[test]
fn claims_are_repeated_under_their_number_and_for_free_slots_only() {
    all(Family::Claimer);
}

#[test]
fn a_lost_lease_is_noticed_in_time_and_nothing_is_begun_or_published_under_it() {
    all(Family::Renewer);
}

#[test]
fn a_settle_is_repeated_until_it_is_answered_and_a_group_that_fails_is_halved() {
    all(Family::Settler);
}

#[test]
fn a_worker_that_is_told_to_stop_finishes_or_hands_back_what_it_holds_in_time() {
    all(Family::Drain);
}
