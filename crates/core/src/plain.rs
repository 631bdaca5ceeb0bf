//! Plain commands beside the scripts. They only read, and each names the call that it belongs to.

use bytes::Bytes;
use fred::types::Value;

use crate::{
    Redis, StoreError,
    model::{Handle, Key},
    redis::slot_of,
};

/// A command on one key, as words.
pub(crate) struct Ask<'a> {
    /// The call that it is part of, for errors.
    pub(crate) call: &'static str,
    /// Redis' name of it.
    pub(crate) command: &'static str,
    /// Which key.
    pub(crate) key: &'a str,
    /// What follows the key.
    pub(crate) words: Vec<Value>,
}

impl Ask<'_> {
    /// The answer as it comes.
    pub(crate) async fn value(self, redis: &Redis) -> Result<Value, StoreError> {
        let mut words: Vec<Value> = vec![self.key.into()];
        words.extend(self.words);
        let answer = redis.call(self.command, Some(slot_of(self.key)), words).await;
        answer.map_err(|err| err.named(self.call))
    }

    /// The answer as a number; none where there is none.
    pub(crate) async fn number(self, redis: &Redis) -> Result<Option<u64>, StoreError> {
        let call = self.call;
        match self.value(redis).await? {
            Value::Null => Ok(None),
            Value::Integer(number) => {
                u64::try_from(number).map(Some).map_err(|_| StoreError::Reply { call })
            }
            other => whole(&other).map(Some).ok_or(StoreError::Reply { call }),
        }
    }

    /// The answer as a list of values, each of which may be missing.
    pub(crate) async fn list(self, redis: &Redis) -> Result<Vec<Option<Bytes>>, StoreError> {
        let call = self.call;
        match self.value(redis).await? {
            Value::Array(values) => Ok(values.into_iter().map(bytes).collect()),
            Value::Null => Ok(Vec::new()),
            _ => Err(StoreError::Reply { call }),
        }
    }
}

/// Members of a sorted set with their scores, the lowest first, from a place on.
pub(crate) async fn members(
    redis: &Redis,
    call: &'static str,
    key: &str,
    offset: usize,
    limit: usize,
) -> Result<Vec<(Bytes, u64)>, StoreError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let last = offset.saturating_add(limit - 1);
    let words = vec![offset.to_string().into(), last.to_string().into(), "WITHSCORES".into()];
    let answer = Ask { call, command: "ZRANGE", key, words }.value(redis).await?;
    scored(answer).ok_or(StoreError::Reply { call })
}

/// The same from a score on, that score included, leaving out the first `skip` of them.
pub(crate) async fn members_from(
    redis: &Redis,
    call: &'static str,
    key: &str,
    from: u64,
    (skip, limit): (usize, usize),
) -> Result<Vec<(Bytes, u64)>, StoreError> {
    let words = ["WITHSCORES", "LIMIT"].map(Value::from);
    let [with_scores, limited] = words;
    let words = vec![
        from.to_string().into(),
        "+inf".into(),
        with_scores,
        limited,
        skip.to_string().into(),
        limit.to_string().into(),
    ];
    let answer = Ask { call, command: "ZRANGEBYSCORE", key, words }.value(redis).await?;
    scored(answer).ok_or(StoreError::Reply { call })
}

/// The score of a member, if it is there.
pub(crate) async fn score(
    redis: &Redis,
    call: &'static str,
    key: &str,
    member: Bytes,
) -> Result<Option<u64>, StoreError> {
    Ask { call, command: "ZSCORE", key, words: vec![Value::Bytes(member)] }.number(redis).await
}

/// How many members stand before a handle; none if it is not there.
pub(crate) async fn rank(
    redis: &Redis,
    call: &'static str,
    key: &str,
    handle: Handle,
) -> Result<Option<u64>, StoreError> {
    let words = vec![Value::Bytes(handle.bytes())];
    Ask { call, command: "ZRANK", key, words }.number(redis).await
}

/// How many members have a score from `least` to `most`, as Redis writes bounds.
pub(crate) async fn counted(
    redis: &Redis,
    call: &'static str,
    key: &str,
    (least, most): (String, String),
) -> Result<u64, StoreError> {
    let words = vec![least.into(), most.into()];
    Ok(Ask { call, command: "ZCOUNT", key, words }.number(redis).await?.unwrap_or(0))
}

/// One value a key of a request, in their order; none where there is none.
pub(crate) async fn fields(
    redis: &Redis,
    call: &'static str,
    hash: &str,
    keys: &[Key],
) -> Result<Vec<Option<Bytes>>, StoreError> {
    let names = keys.iter().map(|key| Value::Bytes(key.bytes())).collect();
    named_fields(redis, call, hash, names).await
}

/// The same for fields of any name.
pub(crate) async fn named_fields(
    redis: &Redis,
    call: &'static str,
    hash: &str,
    names: Vec<Value>,
) -> Result<Vec<Option<Bytes>>, StoreError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let asked = names.len();
    let values = Ask { call, command: "HMGET", key: hash, words: names }.list(redis).await?;
    if values.len() == asked { Ok(values) } else { Err(StoreError::Reply { call }) }
}

/// The length of a field's value; 0 where there is none.
pub(crate) async fn length(
    redis: &Redis,
    call: &'static str,
    hash: &str,
    key: Key,
) -> Result<u64, StoreError> {
    let words = vec![Value::Bytes(key.bytes())];
    Ok(Ask { call, command: "HSTRLEN", key: hash, words }.number(redis).await?.unwrap_or(0))
}

/// RESP2 tells member and score one after the other, RESP3 in pairs.
pub(crate) fn scored(answer: Value) -> Option<Vec<(Bytes, u64)>> {
    let Value::Array(parts) = answer else { return None };
    let flat: Vec<Value> = parts
        .into_iter()
        .flat_map(|part| match part {
            Value::Array(pair) => pair,
            part => vec![part],
        })
        .collect();
    let (pairs, []) = flat.as_chunks::<2>() else { return None };
    pairs.iter().map(|[member, score]| Some((bytes(member.clone())?, whole(score)?))).collect()
}

/// A score of ours is a time in ms, which a double holds exactly.
fn whole(score: &Value) -> Option<u64> {
    let score = match score {
        Value::Double(score) => *score,
        Value::Integer(score) => return u64::try_from(*score).ok(),
        other => std::str::from_utf8(other.as_bytes()?).ok()?.parse().ok()?,
    };
    // A cast saturates: what lies before 1970 is shown as 1970.
    Some(score as u64)
}

/// A value as bytes; none if it is none.
pub(crate) fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        Value::String(text) => Some(text.into_inner()),
        _ => None,
    }
}

/// A number that stands in a hash as text.
pub(crate) fn digits(text: Option<&Bytes>) -> Option<u64> {
    std::str::from_utf8(text?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(text: &'static [u8]) -> Value {
        Value::Bytes(Bytes::from_static(text))
    }

    #[test]
    fn members_and_scores_are_read_in_both_forms_of_the_wire() {
        let flat =
            Value::Array(vec![member(b"a"), member(b"1790000000000"), member(b"b"), member(b"2")]);
        let pair = |name, score| Value::Array(vec![member(name), Value::Double(score)]);
        let pairs = Value::Array(vec![pair(b"a", 1_790_000_000_000.0), pair(b"b", 2.0)]);
        let expected =
            vec![(Bytes::from_static(b"a"), 1_790_000_000_000), (Bytes::from_static(b"b"), 2)];
        assert_eq!(scored(flat), Some(expected.clone()));
        assert_eq!(scored(pairs), Some(expected));
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        assert_eq!(scored(Value::Null), None);
        assert_eq!(scored(Value::Array(vec![member(b"a")])), None);
        assert_eq!(scored(Value::Array(vec![member(b"a"), member(b"soon")])), None);
        assert_eq!(scored(Value::Array(Vec::new())), Some(Vec::new()));
    }
}
