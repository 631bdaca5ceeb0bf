//! The sequences that broke earlier wordings of the protocol. The number above each test names its sequence, in the order
//! in which they were found.
//!
//! "Late" is a copy of a call that runs after its caller gave up and after its repeat was answered.

mod claims;
mod groups;
mod ids;
mod memory;
mod operators;
mod outages;
mod replicas;
mod settles;
mod suspects;
