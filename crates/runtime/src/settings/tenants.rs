//! `[tenants.<name>]`: what one tenant may occupy.

use super::section::{Section, Shown};
use super::value::Size;

/// `[tenants.<name>]`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSettings {
    /// How many requests it may have waiting.
    pub queued: Option<u64>,
    /// How many bytes of them.
    pub bytes: Option<u64>,
    /// How many it may submit a second.
    pub submits_per_second: Option<u64>,
}

pub(super) fn read(mut section: Section<'_>) -> (Option<TenantSettings>, Shown) {
    let queued = section.optional_within("queued", 1..=u64::from(u32::MAX));
    let bytes = section.optional_within("bytes", Size(1)..=Size(1 << 50));
    let rate = section.optional_within("submits_per_second", 1..=1_000_000);
    let shown = section.finish();
    let checked = || {
        Some(TenantSettings {
            queued: queued?,
            bytes: bytes?.map(|Size(bytes)| bytes),
            submits_per_second: rate?,
        })
    };
    (checked(), shown)
}
