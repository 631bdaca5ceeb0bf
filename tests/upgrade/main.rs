//! Two versions over one Redis: side by side while a new one is rolled out, and while it is rolled back.
//!
//! The newer one is built by the test: it writes another field into each ticket, and its scripts have another text.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod fields;
#[allow(dead_code, reason = "shared with other tests, which use the rest of it")]
#[path = "../it/fleet.rs"]
mod fleet;
mod programs;
mod roll;
mod schema;
mod stage;
