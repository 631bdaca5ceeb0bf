//! Leases requests, calls the gateway, settles the outcome.

#![allow(dead_code, unused_imports, reason = "the loops that use these leaves come next")]

mod backoff;
mod classify;
mod gateway;
