//! Hard cases: failures that systems like this one have had in public, each tried on real processes.
//!
//! A file is a case, a test a way in which it happened. [`pace`] says how long they take, [`stage`] sets them up,
//! [`raw_gateway`] is a gateway that misbehaves byte by byte, [`aftermath`] is what must hold after each of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod aftermath;
mod attacked;
#[allow(dead_code, reason = "shared with other tests, which use the rest of it")]
#[path = "../it/fleet.rs"]
mod fleet;
mod pace;
mod raw_gateway;
mod stage;
mod tls_gateway;

mod k01_killed_workers;
mod k02_stale_owner;
mod k06_lost_fields;
mod k08_failed_renewal;
mod k101_labels;
mod k104_markup_in_names;
mod k106_closed_pipes;
mod k107_secrets_in_words;
mod k10_starved_renewals;
mod k11_same_name;
mod k14_unusable_settings;
mod k15_many_reclaimers;
mod k17_back_off;
mod k18_retry_after;
mod k21_equal_deadlines;
mod k23_passed_deadlines;
mod k24_odd_deadlines;
mod k25_permanent_refusals;
mod k29_ids_used_again;
mod k30_one_id_many_submits;
mod k32_half_a_batch;
mod k34_cancel_meets_end;
mod k36_cancel_of_a_call;
mod k38_lost_wake_ups;
mod k39_colons;
mod k41_ids_in_paths;
mod k42_control_characters;
mod k45_exact_bytes;
mod k47_half_characters;
mod k48_line_separators;
mod k49_odd_lines;
mod k51_repeated_ids;
mod k53_odd_bodies;
mod k55_streams;
mod k57_error_answers;
mod k59_foreign_bytes;
mod k62_hostile_heads;
mod k65_kept_connections;
mod k66_slow_answers;
mod k69_rotated_files;
mod k70_end_of_a_producer;
mod k71_slow_clients;
mod k74_submits_without_redis;
mod k77_loops_go_on;
mod k80_forgotten_scripts;
mod k83_kept_results;
mod k84_refused_writes;
mod k86_busy_redis;
mod k87_eviction;
mod k93_missing_rights;
mod k96_signals;
mod k98_probes;
mod k99_skewed_clocks;
