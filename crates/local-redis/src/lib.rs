//! Finds or fetches a `redis-server` or `valkey-server` and runs it privately.
//!
//! # Layout
//!
//! - [`Resolver`] answers which binary to run: an explicit path, `PATH`, a cache, and at last one that it fetches
//!   into that cache without root. It changes nothing outside the cache. For a folder with data it answers with the server
//!   that wrote them, or one that can be trusted to read them.
//! - [`PrivateServer`] runs the binary on a loopback port and a unix socket in a folder of its own, and ends it with
//!   its owner.
//! - [`Tied`] is the part of that which any child process can use: it dies with its parent.
//! - [`resp`] is the protocol in one page, for looking at a server without a client library.
//!
//! All of it is synchronous: callers on an async runtime use a blocking thread.

mod cache;
mod fetch;
mod port;
mod resolve;
pub mod resp;
mod run;
mod server;
pub mod tied;
mod version;
mod written;

pub use cache::default_cache;
pub use port::free_port;
pub use resolve::{Found, How, Resolver, Unresolved};
pub use server::{
    AppendFsync, OnLoading, Options, PrivateServer, StartError, StopError, Unwritten,
};
pub use tied::Tied;
pub use version::{Kind, Version};
pub use written::WrittenBy;
