//! Faults of the first line of each script, which says whether it runs where Redis has no memory left.

use super::{Mutant, of};

macro_rules! stops {
    ($script:literal) => {
        of(
            $script,
            concat!($script, ".lua"),
            "at maxmemory it is refused",
            "#!lua flags=allow-oom\n",
            "#!lua\n",
        )
    };
}

macro_rules! goes_on {
    ($script:literal) => {
        of(
            $script,
            concat!($script, ".lua"),
            "at maxmemory it goes on",
            "#!lua\n",
            "#!lua flags=allow-oom\n",
        )
    };
}

pub(super) const MUTANTS: &[Mutant] = &[
    goes_on!("submit"),
    stops!("claim"),
    stops!("renew"),
    stops!("settle"),
    stops!("cancel"),
    goes_on!("redrive"),
    stops!("reclaim"),
    stops!("promote"),
    stops!("expire"),
    stops!("sweep"),
    stops!("read"),
    stops!("policy"),
    stops!("overrule"),
    stops!("register"),
    stops!("ring"),
    stops!("depth"),
    stops!("audit"),
];
