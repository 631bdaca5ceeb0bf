//! The HTTP API: submit, status, result, cancel.

mod batcher;
mod body;
mod depth;
mod ended;
mod id;
mod item;
mod prefer;
mod problem;
mod query;
