//! A worker on a real Redis, calling a real server.
#![cfg(test)]

mod bell;
mod dispatch;
mod drain;
mod faults;
mod large;
mod leases;
mod support;
