//! Looking into the homes that people ask about, beside the scripts: for eyes only, nothing is decided by what is seen.
//!
//! A page is read by place, in the order of the scores, while others move members: one that moved may be seen twice or
//! not at all. A [`walk`] goes on where it was, so that what stays is met once.

mod walk;

use bytes::Bytes;

use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle, Key, Session, Ticket},
    plain::{fields, members},
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

/// The sessions that hold the leases of a shard, one a lease, as they were seen.
pub async fn holders(redis: &Redis, shard: &ShardKeys) -> Result<Vec<Session>, StoreError> {
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        let page = members(redis, "holders", &shard.leased, offset, MAX_ITEMS).await?;
        let owned = page.iter().filter_map(|(member, _)| Fence::split_member(member)?.0.session());
        found.extend(owned);
        if page.len() < MAX_ITEMS {
            return Ok(found);
        }
        offset += MAX_ITEMS;
    }
}

/// What is kept under the key may be of another generation by now.
fn ticket_of(handle: Handle, packed: Option<Bytes>) -> Option<Ticket> {
    Ticket::unpack(packed?).ok().filter(|ticket| ticket.generation == handle.generation())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, Draft, Generation, Identity};

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
