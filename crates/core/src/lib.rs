//! The lease protocol and nothing else: every Redis key, the wire types, and one typed function a script.
//!
//! # Reading order
//!
//! 1. [`model`]: ids, handles, fences, tickets, records: what is stored and compared.
//! 2. [`keys`]: where it lies.
//! 3. [`script`]: every move between homes, each a Lua file with a typed call.
//! 4. [`redis`]: the client below, which never sends a call twice.
//! 5. [`inspect`] and [`operate`]: what people see, and what operators do; [`doctor`] looks whether all is well, and
//!    [`rights`] whether users may do what their roles do.
//!
//! Nothing here speaks HTTP, handles a signal or reads a setting.

#[cfg(all(feature = "next-field", not(debug_assertions)))]
compile_error!("next-field is for the test of upgrades: no release has it");

pub mod clock;
mod counted;
pub mod doctor;
pub mod error;
pub mod inspect;
pub mod keys;
pub mod metrics;
pub mod model;
pub mod operate;
mod plain;
pub mod redis;
pub mod rights;
pub mod script;

pub use counted::counted;
pub use error::{Chain, StoreError};
pub use redis::Redis;
