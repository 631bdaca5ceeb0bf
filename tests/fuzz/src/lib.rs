//! Every reader of foreign bytes, held to its rules with any bytes.
//!
//! # Layout
//!
//! - [`TARGETS`]: one list of all targets; `targets` has them, by the crate whose readers they hold. A target takes bytes and
//!   panics where a rule does not hold.
//! - [`draws`]: takes such bytes apart where a target needs numbers and pieces.
//! - [`mutate`]: changes kept inputs at random, from a seed. `tests/fuzz.rs` runs every target over what is kept under
//!   `corpus` and over as many changed inputs.
//! - `liar`: a server that answers as Redis does, with whatever the bytes say.
//! - `engine`: one target under libFuzzer, for `just fuzz`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a target says what is wrong by panicking"
)]

pub mod corpus;
pub mod draws;
mod liar;
pub mod mutate;
mod targets;

pub use targets::TARGETS;

/// A reader, held to its rules.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called, also the folder of its kept inputs.
    pub name: &'static str,
    /// Reads these bytes, and panics where a rule does not hold.
    pub run: fn(&[u8]),
    /// Words that its inputs may hold, beside those of every target.
    pub words: &'static [&'static str],
}

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|target| target.name == name).copied()
}
