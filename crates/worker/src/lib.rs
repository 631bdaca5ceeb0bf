//! Leases requests, calls the gateway, settles the outcome.
//!
//! # Layout
//!
//! [`Config`] takes its part of the settings, [`start`] puts the loops together:
//!
//! - `worker` gives free slots work: it holds `slots` (who gets them, as far as `breaker` lets a target
//!   have them), asks `claimer`, dispatches. `bodies` reads what was submitted; `shown` says what others
//!   see of it all.
//! - `attempt` makes one call by `gateway`, and `decide` says how it ends, from `classify` and
//!   `backoff`: these three, `slots` and `breaker` are pure.
//! - `settler` ends attempts, many in one call; `told` counts and logs them, `traced` tells a collector of traces.
//! - `held` knows what this process owns; `renewer` prolongs it on a thread of its own.
//! - [`foreign`] has the readers of what gateways and Redis say, alone.
//! - `store` has the connections; `bell` and `cancels` listen for hints; `files` rereads credentials and certificates.

mod attempt;
mod backoff;
mod bell;
mod bodies;
mod breaker;
mod cancels;
mod claimer;
mod classify;
mod config;
mod decide;
mod files;
pub mod foreign;
mod gateway;
mod held;
mod pause;
mod queue;
mod renewer;
mod service;
mod settler;
mod shown;
mod slots;
mod store;
mod told;
mod traced;
mod worker;

pub use config::Config;
pub use renewer::RenewOn;
pub use service::{spawn, start};
