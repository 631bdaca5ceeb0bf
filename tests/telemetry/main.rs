//! What operators look at, looked at: a real fleet, scraped by a real Prometheus.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod alerts;
#[allow(dead_code, reason = "shared with other tests, which use the rest of it")]
#[path = "../it/collector.rs"]
mod collector;
mod dashboard;
#[allow(dead_code, reason = "shared with other tests, which use the rest of it")]
#[path = "../it/fleet.rs"]
mod fleet;
mod prometheus;
mod readyz;
mod rules;
mod watched;
