//! The shipped roles under scripted clocks, networks and gateways: see `main.rs`.
