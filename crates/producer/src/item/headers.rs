//! `headers`: what a request brings along for its call, as far as its queue allows it.

use std::collections::BTreeSet;
use std::fmt;

use holdfast_runtime::settings::Allowed;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::{HeaderFault, ItemError};

/// The most headers that a request may bring.
pub(super) const MAX_HEADERS: usize = 32;

/// The most bytes that their names and values may take together.
pub(super) const MAX_HEADER_BYTES: usize = 8 * 1024;

/// Reads the headers; names come back in lower case.
pub(super) fn read(raw: &str, allowed: &Allowed) -> Result<Vec<(String, String)>, ItemError> {
    pairs(raw, allowed).map_err(|fault| ItemError::Headers { fault })
}

fn pairs(raw: &str, allowed: &Allowed) -> Result<Vec<(String, String)>, HeaderFault> {
    let Pairs(mut pairs) = serde_json::from_str(raw).map_err(|_| HeaderFault::NotTexts)?;
    let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if pairs.len() > MAX_HEADERS || bytes > MAX_HEADER_BYTES {
        return Err(HeaderFault::TooMany);
    }
    let mut seen = BTreeSet::new();
    for (at, (name, value)) in pairs.iter_mut().enumerate() {
        let position = at + 1;
        name.make_ascii_lowercase();
        if !allowed.header(name) {
            return Err(HeaderFault::NotAllowed { position });
        }
        if !seen.insert(name.clone()) {
            return Err(HeaderFault::Twice { position });
        }
        if !is_value(value) {
            return Err(HeaderFault::Value { position });
        }
    }
    Ok(pairs)
}

fn is_value(text: &str) -> bool {
    text.trim_matches([' ', '\t']) == text
        && text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
}

/// The members of an object in their order, a repeated one too.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
