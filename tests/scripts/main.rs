//! The typed scripts against a real server, one call after another: each invariant of `docs/protocol.md`, and each
//! sequence of calls that broke an earlier wording of it.
//!
//! Reading order: [`fixture`], then [`invariants`], then [`attacks`], then [`operate`]. Times are real only where a deadline or a lease must
//! pass; elsewhere the stored end of a lease is moved into the past, which is what a wait does to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod attacks;
mod costs;
mod fixture;
mod invariants;
mod operate;
