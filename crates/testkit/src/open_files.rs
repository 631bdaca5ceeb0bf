//! How many files the test's process may open: each connection of its clients, gateways and proxies takes one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit, for many systems 1024, to the hard one, as the roles do for themselves.
pub(crate) fn raise_limit() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit of open files");
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("a higher limit of open files");
    }
}
