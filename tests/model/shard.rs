//! The whole content of a server, and how two such contents differ.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::value::show;

/// What lies under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Member → score, as Redis prints it.
    Sorted(BTreeMap<Vec<u8>, String>),
    /// Field → value.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// Items.
    List(Vec<Vec<u8>>),
    /// What no script may leave: another type, or a key with an end of its own.
    Strange(String),
}

impl Content {
    fn is_empty(&self) -> bool {
        match self {
            Self::Sorted(members) => members.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Strange(_) => false,
        }
    }

    /// Its entries as text, each under its name.
    fn entries(&self) -> BTreeMap<String, String> {
        let text = |bytes: &[u8]| show(bytes);
        match self {
            Self::Sorted(members) => {
                members.iter().map(|(it, score)| (text(it), score.clone())).collect()
            }
            Self::Hash(fields) => {
                fields.iter().map(|(field, it)| (text(field), text(it))).collect()
            }
            Self::List(items) => BTreeMap::from([("length".to_owned(), items.len().to_string())]),
            Self::Strange(what) => BTreeMap::from([("strange".to_owned(), what.clone())]),
        }
    }
}

/// Everything that a server holds: key → content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shard(pub BTreeMap<Vec<u8>, Content>);

impl Shard {
    /// Adds a key; Redis keeps no empty ones.
    pub fn put(&mut self, key: &str, content: Content) {
        if !content.is_empty() {
            self.0.insert(key.into(), content);
        }
    }

    /// What differs, one line an entry.
    pub fn differences(&self, redis: &Self) -> String {
        let mut text = String::new();
        let keys: std::collections::BTreeSet<_> = self.0.keys().chain(redis.0.keys()).collect();
        for key in keys {
            let entries = |shard: &Self| shard.0.get(key).map(Content::entries).unwrap_or_default();
            let (model, redis) = (entries(self), entries(redis));
            let names: std::collections::BTreeSet<_> = model.keys().chain(redis.keys()).collect();
            for name in names.into_iter().filter(|name| model.get(*name) != redis.get(*name)) {
                let of = |entries: &BTreeMap<String, String>| {
                    entries.get(name).cloned().unwrap_or("-".into())
                };
                let key = key.escape_ascii();
                let _ = writeln!(
                    text,
                    "  {key} {name}\n    model: {}\n    redis: {}",
                    of(&model),
                    of(&redis)
                );
            }
        }
        text
    }
}
