//! The HTTP API: submit, status, result, cancel.
//!
//! # Reading order
//!
//! 1. `api`: the routes. `requests`, `batch`, `list`, `result` and `queues` hold their handlers; `path`, `query`, `prefer`
//!    and `body` read what a caller says, `item` what it submits.
//! 2. `admission` and `lookup`: the two calls that travel together, by way of `batcher`. `traced` tells a collector of the first.
//!    `durable`: the looks of a queue that asks for more than Redis gives by itself.
//! 3. `wait` and `ended`: long polls.
//! 4. `who`: keys, tenants and scopes, before every route. `problem`: every refusal. `openapi`: what is told of each route.
//! 5. `operate`: operators' calls, on a listener of their own.
//! 6. `producer`: how the parts are put together. [`foreign`]: the readers alone, without a server around them.

mod admission;
mod api;
mod app;
mod batch;
mod batcher;
mod body;
mod config;
mod depth;
mod durable;
mod ended;
pub mod foreign;
mod holders;
mod id;
mod item;
mod large;
mod list;
mod lookup;
mod openapi;
mod operate;
mod path;
mod prefer;
mod problem;
mod producer;
mod query;
mod queues;
mod requests;
mod result;
#[cfg(test)]
mod stage;
mod status;
mod store;
mod traced;
mod wait;
mod who;

pub use config::Config;
pub use producer::{Addresses, spawn, start};
