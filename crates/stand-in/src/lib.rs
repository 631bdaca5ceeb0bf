//! An inference server in OpenAI form for demos and tests.
//!
//! It computes nothing: an answer carries the SHA-256 of the request's exact bytes, the arrival's number and
//! the head of the last user message, so that a reader can tell which request was answered, and by which
//! arrival. What goes wrong is scripted: delays, statuses, cuts, stalls. Every arrival is kept with its bytes.
//!
//! It judges no parameters: any JSON object is answered; what is no JSON gets a 400 in OpenAI's form.
//!
//! # Layout
//!
//! [`StandIn`] runs one inside a process, [`serve`] is the bare future for a process of its own.
//! `server` accepts connections over `wire` and hands requests to `routes`; `openai` makes the answers out of
//! what `prompt` reads; `script` says what goes wrong and `answer` does it; `journal` keeps the [`Arrival`]s;
//! `control` is all of it over HTTP, under `/stand-in/`:
//!
//! | call | does |
//! |---|---|
//! | `POST /stand-in/script` | a JSON list of [`Rule`]s replaces the script |
//! | `DELETE /stand-in/script` | no rules any more |
//! | `POST /stand-in/hold` | `{"hold": true}`: arrivals wait; `{"hold": false}`: all go on |
//! | `GET /stand-in/counts` | [`Counts`] |
//! | `GET /stand-in/arrivals?since=N&limit=M&bodies=false` | kept arrivals with a number above N, as [`Page`] |
//! | `GET /stand-in/arrivals/{n}/body`, `…/answer` | the exact bytes |
//!
//! These calls are no arrivals. Everything a client sent can be read there, headers too: a stand-in belongs on
//! a loopback address.

mod answer;
mod arrival;
mod control;
mod journal;
mod log;
mod openai;
mod place;
mod prompt;
mod routes;
mod script;
mod server;
mod stand_in;
mod wire;

pub use arrival::{Arrival, ArrivalLine, Counts, End, EndLine, How, Page};
pub use journal::Keep;
pub use routes::BODY_LIMIT;
pub use script::{HeaderIs, Match, Payload, Rule, ScriptError, Trickle};
pub use server::{Options, serve};
pub use stand_in::{Late, StandIn};
