//! The model explored: every state that it can reach within some bounds, whatever goes wrong.
//!
//! # Reading order
//!
//! 1. [`world`]: what is around a shard. [`step`]: what can happen. [`choices`]: when.
//! 2. [`judge`]: the invariants, each by its name. [`live`]: that everything ends.
//! 3. [`order`], [`alike`]: worlds that are one. [`sound`]: that this loses nothing. [`search`]: all of them.
//! 4. [`family`]: what is explored. [`taken_out`]: what each rule is for. [`attacks`]: sequences, one by one.
//!
//! `docs/proof.md` says what this covers. `HOLDFAST_MODEL=full` explores the whole family.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod alike;
mod attacks;
mod choices;
mod family;
mod judge;
mod live;
mod order;
mod search;
mod sound;
mod step;
mod taken_out;
mod world;
