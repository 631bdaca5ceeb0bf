//! The walks that hold the shipped scripts to the executable model of the protocol, `tests/model`.
//!
//! # Reading order
//!
//! 1. [`draw`], [`world`]: which calls are made, and what happens between them.
//! 2. [`walk`]: scripts and model in step, compared after each.
//! 3. [`redis`], [`server`], [`scripts`]: the real ones.
//! 4. [`mutants`]: scripts with one fault each, which the walks must find.
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
mod hunt;
#[path = "../mutants/list.rs"]
mod mutants;
mod redis;
mod scripts;
mod server;
mod walk;
mod world;

use std::time::Instant;

use holdfast_testkit::RedisServer;

use crate::{
    scripts::{SCRIPTS, Texts},
    server::Server,
    walk::{Plan, Tally, walk},
};

/// How many walks, and how long each is.
const WALKS: u64 = 300;
const STEPS: usize = 60;

/// A server of this test's own.
fn server() -> (RedisServer, Server) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let redis = runtime.block_on(RedisServer::start());
    let server = Server::connect(&format!("127.0.0.1:{}", redis.port()));
    (redis, server)
}

/// A number from the environment, for a longer walk or one that is walked again.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn the_scripts_do_what_the_model_does() {
    let (_redis, mut server) = server();
    let texts = Texts::shipped();
    server.load(&texts);
    let (began, mut calls, mut tally) = (Instant::now(), 0, Tally::new());
    let seeds = match number("HOLDFAST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HOLDFAST_STEPS").map_or(WALKS, |steps| steps.div_ceil(STEPS as u64)),
    };
    let walks = seeds.end - seeds.start;
    for seed in seeds {
        match walk(
            &mut server,
            &mut tally,
            Plan { seed, steps: STEPS, favourite: None, slant: None },
        ) {
            Ok(made) => calls += made,
            Err(parted) => panic!("{parted}"),
        }
    }
    println!("{walks} walks, {calls} calls, {:.1} s", began.elapsed().as_secs_f64());
    for ((script, word), count) in &tally {
        println!("{script:10} {word:12} {count:8}");
    }
    if walks >= WALKS {
        every_answer_was_given(&texts, &tally);
    }
}

/// A walk that never meets an answer proves nothing about it.
fn every_answer_was_given(texts: &Texts, tally: &Tally) {
    for script in SCRIPTS {
        for word in scripts::answers(texts.file(script)) {
            assert!(tally.contains_key(&(script, word)), "{script} never answered {word:?}");
        }
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

#[test]
fn every_mutant_has_its_place_in_a_script_and_on_its_page() {
    let wrongs = if writes_the_page() { Vec::new() } else { hunt::wrongs() };
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));
}

#[test]
fn every_mutant_is_found_out() {
    let (_redis, mut server) = server();
    let began = Instant::now();
    let (page, survivors) = hunt::hunt(&mut server);
    println!("{} mutants, {:.1} s", mutants::all().len(), began.elapsed().as_secs_f64());
    assert!(survivors.is_empty(), "not found out:\n{}", survivors.join("\n"));
    if writes_the_page() {
        std::fs::write(hunt::page(), page).expect("the page");
    }
}

fn writes_the_page() -> bool {
    std::env::var("HOLDFAST_TABLE").is_ok_and(|word| word == "write")
}
