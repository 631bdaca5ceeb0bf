//! Leases requests, calls the gateway, settles the outcome.
