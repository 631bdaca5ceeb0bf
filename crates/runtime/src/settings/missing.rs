//! What this version reads and checks, but can't do yet.
//!
//! Taking such a setting without a word would promise what does not happen, so it is refused.
//! Whoever builds the feature removes its lines here.

pub(super) const MISSING: &[(&str, &str)] = &[
    // Export of traces.
    ("traces", "endpoint"),
];

/// Whether a field's feature is not built yet.
pub(super) fn is_missing(kind: &str, field: &str) -> bool {
    MISSING.contains(&(kind, field))
}
