//! The API over real HTTP, in front of a real Redis.
#![cfg(test)]

mod conversation;
mod ids;
mod refusals;
mod store;
mod support;
mod waiting;
mod who;
