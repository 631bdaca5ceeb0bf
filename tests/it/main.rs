//! Real binaries against real Redis, one file a promise; and the shape of the tree itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod api_description;
mod architecture;
mod at_rest;
mod cli;
mod collector;
mod demo;
mod drain;
mod early;
mod ends;
mod examples;
mod files;
mod fleet;
mod frozen;
mod hostile;
mod hung;
mod input;
mod keys;
mod killed;
mod lost_replies;
mod metrics;
mod operations;
mod operators;
mod reclaimers;
mod redis_away;
mod secrets;
mod targets;
mod tenants;
mod tls;
mod traces;
mod unread;
mod up;
mod ways;
