//! The executable model of the protocol: what a shard holds, and what each call does to it.
//!
//! # Reading order
//!
//! 1. [`state`]: what a shard holds.
//! 2. [`call`], [`reply`]: what can be asked of it, and what is answered.
//! 3. `step`: what each call does, one function a script; [`State::step`](state::State::step) runs one. These three are
//!    the model.
//! 4. [`shift`]: time. [`invariants`]: what must be true of every state.
//! 5. [`rules`]: what each rule is for is shown by taking it out. [`rename`]: names that mean the same.
//! 6. [`names`], [`render`], [`speech`], [`shard`], [`value`]: the model's numbers as the bytes that Redis holds and tells.
//!
//! The walk (`tests/walk`) holds the shipped scripts to it, call by call.

pub mod call;
pub mod invariants;
pub mod names;
pub mod rename;
pub mod render;
pub mod reply;
pub mod rules;
pub mod shard;
pub mod shift;
pub mod speech;
pub mod state;
mod step;
pub mod value;
