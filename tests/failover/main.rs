//! What a failover costs, counted: `just failover`, so many rounds of each as `just failover 3`, or only those whose name has
//! a word in it, as `just failover 3 replicated paused`.
//!
//! A primary and a replica under three sentinels, all roles as processes, callers that submit all the time. The primary is
//! killed, paused, cut off from all, or cut off from its peers alone while the callers still reach it; another takes its
//! place, the first one comes back. For each level of durability a table tells what was accepted, what of it was lost, what
//! arrived at the gateway again, and of how many generations two different records were seen.
//!
//! # Layout
//!
//! [`ledger`] is what callers were told and what arrived; no word of a service is in it but its answers to callers. [`scene`]
//! is one run: servers, roles, a fault. [`table`] prints, and judges: at `replicated` nothing is lost, and nobody sees two
//! records.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a run that can't be made ends and says what failed"
)]

#[allow(dead_code, reason = "shared with other tests, which use the rest of it")]
#[path = "../it/fleet.rs"]
mod fleet;
mod ledger;
mod scene;
mod table;

use std::env;
use std::process::ExitCode;

use scene::{FAULTS, LEVELS};
use table::Table;

#[tokio::main]
async fn main() -> ExitCode {
    // Cargo may add a word of its own, which begins with a dash.
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let (numbers, wanted): (Vec<_>, Vec<_>) =
        words.into_iter().partition(|word| word.parse::<usize>().is_ok());
    let rounds = numbers.iter().find_map(|word| word.parse().ok()).unwrap_or(1);
    let mut table = Table::default();
    for level in LEVELS {
        for fault in FAULTS {
            let name = format!("{}, {}", level.name, fault.name());
            let is_wanted = wanted.iter().all(|word| name.contains(word));
            for _ in 0..if is_wanted { rounds } else { 0 } {
                let row = scene::play(level, fault).await;
                eprintln!("{name}: {row:?}");
                table.add(level, fault, row);
            }
        }
    }
    print!("{table}");
    if table.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
