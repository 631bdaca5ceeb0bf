//! The fields of an item, each still as the text that stands in the body.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::ItemError;

/// A field that an item may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The caller's name for the request.
    Id,
    /// When an answer is of no more use.
    Deadline,
    /// The same, counted from now.
    Timeout,
    /// The earliest time for the first attempt.
    NotBefore,
    /// Another path at the gateway.
    Path,
    /// More headers towards the gateway.
    Headers,
    /// The caller's own notes.
    Metadata,
    /// The body of the call.
    Payload,
}

impl Field {
    pub(crate) const ALL: [Self; 8] = [
        Self::Id,
        Self::Deadline,
        Self::Timeout,
        Self::NotBefore,
        Self::Path,
        Self::Headers,
        Self::Metadata,
        Self::Payload,
    ];

    /// The field as it is spelled in a body.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Deadline => "deadline",
            Self::Timeout => "timeout",
            Self::NotBefore => "not_before",
            Self::Path => "path",
            Self::Headers => "headers",
            Self::Metadata => "metadata",
            Self::Payload => "payload",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What stands in the body for each field.
#[derive(Default)]
pub(super) struct Fields<'a>([Option<&'a str>; Field::ALL.len()]);

impl<'a> Fields<'a> {
    /// Reads exact JSON: one object, of known fields, each at most once.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ItemError> {
        // serde's own text quotes the body; its place and kind do not.
        let read: Read<'a> = serde_json::from_slice(body).map_err(|err| match err.classify() {
            Category::Data => ItemError::NotAnObject,
            _ => ItemError::Syntax { line: err.line(), column: err.column() },
        })?;
        read.0
    }

    pub(super) fn get(&self, field: Field) -> Option<&'a str> {
        self.0[field as usize]
    }

    fn put(&mut self, key: Option<Field>, raw: &'a str, position: usize) -> Result<(), ItemError> {
        let field = key.ok_or(ItemError::UnknownField { position })?;
        match self.0[field as usize].replace(raw) {
            None => Ok(()),
            Some(_) => Err(ItemError::DuplicateField { field }),
        }
    }
}

/// The fields, or the first fault that is ours to name rather than the JSON parser's.
struct Read<'a>(Result<Fields<'a>, ItemError>);

impl<'de> Deserialize<'de> for Read<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Read<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut read = Ok(Fields::default());
        let mut position = 0;
        // Reads on after a fault: only then is it known that the rest is JSON.
        while let Some(Key(key)) = map.next_key()? {
            position += 1;
            let raw = map.next_value::<&'de RawValue>()?.get();
            read = read.and_then(|mut fields: Fields<'de>| {
                fields.put(key, raw, position).map(|()| fields)
            });
        }
        Ok(Read(read))
    }
}

/// A key of the object, if it names a field.
struct Key(Option<Field>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Key, E> {
        Ok(Key(Field::ALL.into_iter().find(|field| field.name() == text)))
    }
}
