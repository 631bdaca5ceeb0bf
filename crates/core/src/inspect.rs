//! Looking into the homes that people ask about, beside the scripts: for eyes only, nothing is decided by what is seen.
//!
//! A page is read by place, in the order of the scores, while others move members: one that moved may be seen twice or
//! not at all. A [`walk`] goes on where it was, so that what stays is met once.

mod walk;

use bytes::Bytes;
use fred::types::Value;

use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle, Identity, Key, Record, Ticket},
    redis::slot_of,
    script::MAX_ITEMS,
};

pub use walk::{Part, Position, walk};

/// A page of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What could be read.
    pub rows: Vec<T>,
    /// Members that are not laid out as this version writes them.
    pub unreadable: usize,
    /// Whether the home may go on behind this page.
    pub more: bool,
}

/// A running lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// Who holds it: session and call.
    pub fence: Fence,
    /// What is leased.
    pub handle: Handle,
    /// When it lapses, in ms of the Redis clock.
    pub expires_at: u64,
    /// Its state; none if that is lost, or cannot be read by this version.
    pub ticket: Option<Ticket>,
}

/// A dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadRow {
    /// What ended.
    pub handle: Handle,
    /// Until when it is kept, in ms of the Redis clock.
    pub kept_until: u64,
    /// Its state; none if that is lost, or cannot be read by this version.
    pub ticket: Option<Ticket>,
    /// How it ended; none if that is lost, or cannot be read by this version.
    pub record: Option<Record>,
}

impl DeadRow {
    /// Whose it is, by whichever of the two still says so.
    pub fn identity(&self) -> Option<&Identity> {
        let of_ticket = self.ticket.as_ref().and_then(|ticket| ticket.identity.as_ref());
        of_ticket.or_else(|| self.record.as_ref()?.identity.as_ref())
    }
}

/// The leases of a shard, those that lapse next first; at most 256 a call.
pub async fn leases(
    redis: &Redis,
    shard: &ShardKeys,
    offset: usize,
    limit: usize,
) -> Result<Page<LeaseRow>, StoreError> {
    const CALL: &str = "leases";
    let limit = limit.min(MAX_ITEMS);
    let members = members(redis, CALL, &shard.leased, offset, limit).await?;
    let owned = |(member, score): &(Bytes, u64)| {
        let (fence, handle) = Fence::split_member(member)?;
        Some((fence, handle, *score))
    };
    let owned: Vec<_> = members.iter().filter_map(owned).collect();
    let keys: Vec<Key> = owned.iter().map(|(_, handle, _)| handle.key()).collect();
    let tickets = fields(redis, CALL, &shard.ticket, &keys).await?;
    let rows = owned.iter().zip(tickets).map(|((fence, handle, expires_at), ticket)| LeaseRow {
        fence: *fence,
        handle: *handle,
        expires_at: *expires_at,
        ticket: ticket_of(*handle, ticket),
    });
    Ok(Page {
        rows: rows.collect(),
        unreadable: members.len() - owned.len(),
        more: limit > 0 && members.len() == limit,
    })
}

/// The dead letters of a shard, those that are kept shortest first; at most 256 a call.
pub async fn dead(
    redis: &Redis,
    shard: &ShardKeys,
    offset: usize,
    limit: usize,
) -> Result<Page<DeadRow>, StoreError> {
    const CALL: &str = "dead";
    let limit = limit.min(MAX_ITEMS);
    let members = members(redis, CALL, &shard.dead, offset, limit).await?;
    let ended =
        |(member, score): &(Bytes, u64)| Some((Handle::try_from(member.as_ref()).ok()?, *score));
    let ended: Vec<_> = members.iter().filter_map(ended).collect();
    let keys: Vec<Key> = ended.iter().map(|(handle, _)| handle.key()).collect();
    let tickets = fields(redis, CALL, &shard.ticket, &keys).await?;
    let records = fields(redis, CALL, &shard.result, &keys).await?;
    let rows = ended.iter().zip(tickets.into_iter().zip(records)).map(
        |((handle, kept_until), (ticket, record))| DeadRow {
            handle: *handle,
            kept_until: *kept_until,
            ticket: ticket_of(*handle, ticket),
            record: record_of(*handle, record),
        },
    );
    Ok(Page {
        rows: rows.collect(),
        unreadable: members.len() - ended.len(),
        more: limit > 0 && members.len() == limit,
    })
}

/// What is kept under the key may be of another generation by now.
fn ticket_of(handle: Handle, packed: Option<Bytes>) -> Option<Ticket> {
    Ticket::unpack(packed?).ok().filter(|ticket| ticket.generation == handle.generation())
}

fn record_of(handle: Handle, packed: Option<Bytes>) -> Option<Record> {
    Record::unpack(packed?).ok().filter(|record| record.generation == handle.generation())
}

/// Members of a sorted set with their scores, the lowest first.
async fn members(
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
    let words =
        vec![key.into(), offset.to_string().into(), last.to_string().into(), "WITHSCORES".into()];
    let answer = redis.call("ZRANGE", Some(slot_of(key)), words).await;
    scored(answer.map_err(|err| err.named(call))?).ok_or(StoreError::Reply { call })
}

/// RESP2 tells member and score one after the other, RESP3 in pairs.
fn scored(answer: Value) -> Option<Vec<(Bytes, u64)>> {
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
        other => std::str::from_utf8(other.as_bytes()?).ok()?.parse().ok()?,
    };
    // A cast saturates: what lies before 1970 is shown as 1970.
    Some(score as u64)
}

/// One value a key, in their order; none where there is none.
async fn fields(
    redis: &Redis,
    call: &'static str,
    hash: &str,
    keys: &[Key],
) -> Result<Vec<Option<Bytes>>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut words: Vec<Value> = vec![hash.into()];
    words.extend(keys.iter().map(|key| Value::Bytes(key.bytes())));
    let answer = redis.call("HMGET", Some(slot_of(hash)), words).await;
    let Value::Array(values) = answer.map_err(|err| err.named(call))? else {
        return Err(StoreError::Reply { call });
    };
    if values.len() != keys.len() {
        return Err(StoreError::Reply { call });
    }
    Ok(values.into_iter().map(bytes).collect())
}

fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        Value::String(text) => Some(text.into_inner()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, Draft, Generation};

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

    #[test]
    fn a_ticket_of_another_generation_is_not_shown_for_this_one() {
        let identity = Identity { tenant: "t".try_into().unwrap(), id: "i".try_into().unwrap() };
        let generation = Generation::from([3; 8]);
        let digest = Digest([0; 32]);
        let draft = Draft { generation, digest, deadline: 1, not_before: 0, body_size: 0 };
        let packed = draft.pack(&identity, "");
        let handle = |generation| Handle::new(1, Generation::from(generation), Key::from([9; 16]));
        assert!(ticket_of(handle([3; 8]), Some(packed.clone())).is_some());
        assert!(ticket_of(handle([4; 8]), Some(packed)).is_none());
        assert!(ticket_of(handle([3; 8]), Some(Bytes::from_static(b"\x09"))).is_none());
        assert!(ticket_of(handle([3; 8]), None).is_none());
    }
}
