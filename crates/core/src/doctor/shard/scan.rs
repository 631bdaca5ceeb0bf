//! Going through a set or a hash bit by bit: whatever is there all the time is seen at least once.

use bytes::Bytes;
use fred::types::Value;

use super::CALL;
use crate::{
    Redis, StoreError,
    plain::{self, Ask},
};

/// About how many one call looks at.
const STEP: &str = "256";

/// How many names are drawn where a server cannot go through names alone.
const SAMPLE: &str = "4096";

/// Where it is.
pub(super) struct Scan<'a> {
    key: &'a str,
    how: How,
    cursor: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Set,
    Hash,
    /// Of a hash whose values are large.
    Names,
    /// The same by drawing, where the server knows no better way.
    Drawn,
}

impl<'a> Scan<'a> {
    /// Members of a sorted set.
    pub(super) fn of_set(key: &'a str) -> Self {
        Self { key, how: How::Set, cursor: Some("0".to_owned()) }
    }

    /// Fields of a hash whose values are small.
    pub(super) fn of_hash(key: &'a str) -> Self {
        Self { how: How::Hash, ..Self::of_set(key) }
    }

    /// Fields of a hash whose values may be large: some of them only, where the server cannot leave values out.
    pub(super) fn of_names(key: &'a str) -> Self {
        Self { how: How::Names, ..Self::of_set(key) }
    }

    /// The next ones; none: that was all.
    pub(super) async fn next(&mut self, redis: &Redis) -> Result<Option<Vec<Bytes>>, StoreError> {
        let Some(cursor) = self.cursor.take() else { return Ok(None) };
        let words = |more: &[&str]| {
            let all = [&[cursor.as_str(), "COUNT", STEP], more].concat();
            all.into_iter().map(Value::from).collect::<Vec<_>>()
        };
        let (command, words) = match self.how {
            How::Set => ("ZSCAN", words(&[])),
            How::Hash => ("HSCAN", words(&[])),
            How::Names => ("HSCAN", words(&["NOVALUES"])),
            How::Drawn => ("HRANDFIELD", vec![SAMPLE.into()]),
        };
        let answer = Ask { call: CALL, command, key: self.key, words }.value(redis).await;
        if self.how == How::Drawn {
            let Value::Array(names) = answer? else { return Ok(Some(Vec::new())) };
            return Ok(Some(names.into_iter().filter_map(plain::bytes).collect()));
        }
        let answer = match answer {
            Err(err) if self.how == How::Names && err.refusal().is_some() => {
                self.how = How::Drawn;
                self.cursor = Some(String::new());
                return Ok(Some(Vec::new()));
            }
            answer => answer?,
        };
        let broken = || StoreError::Reply { call: CALL };
        let Value::Array(parts) = answer else { return Err(broken()) };
        let [next, found] = <[Value; 2]>::try_from(parts).map_err(|_| broken())?;
        let next = next.into_string().ok_or_else(broken)?;
        self.cursor = (next != "0").then_some(next);
        let found = match found {
            Value::Array(found) => found,
            Value::Map(found) => {
                found.inner().into_iter().flat_map(|(name, value)| [name.into(), value]).collect()
            }
            _ => return Err(broken()),
        };
        let step = if self.how == How::Names { 1 } else { 2 };
        Ok(Some(found.into_iter().step_by(step).filter_map(plain::bytes).collect()))
    }
}
