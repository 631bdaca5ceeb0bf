//! Real binaries against real Redis, one file a promise; and the shape of the tree itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod architecture;
mod demo;
mod up;
