//! What operators look at, looked at: a real fleet, scraped by a real Prometheus.

mod dashboard;
mod fires;
mod prometheus;
mod readyz;
mod rules;
mod watched;
