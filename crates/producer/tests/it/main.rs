//! The API over real HTTP, in front of a real Redis.
#![cfg(test)]

mod batch;
mod batch_stream;
mod conversation;
mod durability;
mod framing;
mod ids;
mod list;
mod operate;
mod refusals;
mod store;
mod support;
mod waiting;
mod who;
