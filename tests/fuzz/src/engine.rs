//! One target of the list under libFuzzer: the variable `HOLDFAST_FUZZ` names it.
#![no_main]
#![allow(clippy::expect_used, reason = "it ends with the reason")]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<holdfast_fuzz::Target> = LazyLock::new(|| {
    let name = std::env::var("HOLDFAST_FUZZ").expect("HOLDFAST_FUZZ names a target");
    holdfast_fuzz::target(&name).expect("HOLDFAST_FUZZ names a target of the list")
});

fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
