//! The HTTP API: submit, status, result, cancel.

mod body;
mod depth;
mod id;
mod item;
mod prefer;
mod problem;
mod query;
