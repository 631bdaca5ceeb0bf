//! The invariants of `docs/protocol.md`: one file each, or one for those that are shown together.

mod arguments;
mod bells;
mod bodies;
mod bounds;
mod clock;
mod fences;
mod homes;
mod keys;
mod lane_limits;
mod limits;
mod loss;
mod memory;
mod order;
mod outage;
mod records;
mod repeats;
mod retention;
mod rights;
mod types;
