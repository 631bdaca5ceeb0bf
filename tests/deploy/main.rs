//! What lies in `deploy/`, rendered, checked and run.
//!
//! [`rendered`] makes objects of the manifests, [`valid`] and [`policy`] say what they must be. [`stage`] starts the real roles as
//! their Deployments say, over a Redis with the very settings and users; [`starts`] and [`rights`] look at that. [`drawn`] looks at
//! the passwords. [`image`] reads the Dockerfile, [`replay`] runs what it would put into the image, in an empty folder and as process 1.
//! [`alerts`] has its alerts fire and its panels filled.
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
mod drawn;
#[allow(dead_code, reason = "shared with other tests, which use the rest of it")]
#[path = "../it/fleet.rs"]
mod fleet;
mod image;
mod missing;
mod monitor;
mod policy;
mod rendered;
mod replay;
mod rights;
mod scaling;
mod settings;
mod stage;
mod starts;
mod valid;
