//! Real servers, processes and faults for tests.
//!
//! # Layout
//!
//! - [`RedisServer`] is a real server of the test's own, which can be killed, restarted and frozen, and be looked into
//!   without the client that is under test.
//! - [`Process`] is a real binary: its lines, its signals, its exit status.
//! - [`Sentinel`] and [`Cluster`] are several of them, one of which takes another's place.
//! - [`Relay`] is an address that can be moved from one server to another, or cut off.
//! - [`Proxy`] stands between a client and its Redis and loses, delays, holds and refuses on demand.
//! - [`StandIn`] is the gateway; what else it knows lies in [`stand_in`].
//! - [`eventually`] is how tests wait.
//! - [`http`] is a client for the APIs of the roles.
//!
//! What these tools can't do fails the test that asked: they panic with what they were doing.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a tool of the tests: what it can't do fails the test"
)]

mod cluster;
mod eventually;
pub mod http;
mod open_files;
mod process;
pub mod proxy;
mod redis;
mod relay;
mod sentinel;
mod signal;

pub use cluster::Cluster;
pub use eventually::eventually;
pub use holdfast_local_redis::resp::Value;
pub use holdfast_local_redis::{AppendFsync, Options as RedisOptions};
pub use holdfast_stand_in as stand_in;
pub use holdfast_stand_in::StandIn;
pub use http::Http;
pub use process::{Finished, Process};
pub use proxy::{Fault, Proxy, When};
pub use redis::{Client, RedisServer};
pub use relay::Relay;
pub use sentinel::Sentinel;

/// A loopback port that nobody listens on at this moment, for servers that can't choose their own.
pub fn free_port() -> u16 {
    holdfast_local_redis::free_port().expect("a free port")
}
