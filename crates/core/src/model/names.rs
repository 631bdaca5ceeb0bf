//! The names that people give: queues, tenants, request ids, and where a request lies because of them.

use std::{fmt, num::NonZeroU32, sync::Arc};

use bytes::{BufMut, Bytes};
use sha2::{Digest as _, Sha256};

use super::{Key, Undecodable, wire::Reader};

/// A name that breaks the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 63 of a-z, 0-9, '.', '_', '-', and start with a letter or a digit")]
pub struct InvalidName;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidName;

            fn try_from(text: &str) -> Result<Self, InvalidName> {
                let first = text.bytes().next().is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9'));
                let rest = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
                if first && rest && text.len() <= 63 { Ok(Self(text.into())) } else { Err(InvalidName) }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// A declared stream of requests.
    QueueName
}
name! {
    /// Who submits.
    TenantName
}

/// The caller's name for a request, unique per tenant and queue: 1 to 1024 bytes of anything.
///
/// The HTTP surface is narrower; requests adopted from elsewhere are not.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Bytes);

impl RequestId {
    /// The id's bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

impl RequestId {
    /// The id as text, where it is some; else with its bytes escaped.
    pub fn text(&self) -> String {
        std::str::from_utf8(&self.0).map_or_else(|_| self.to_string(), str::to_owned)
    }
}

impl TryFrom<Bytes> for RequestId {
    type Error = Undecodable;

    fn try_from(bytes: Bytes) -> Result<Self, Undecodable> {
        if (1..=1024).contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(Undecodable { what: "id" })
        }
    }
}

impl TryFrom<&str> for RequestId {
    type Error = Undecodable;

    fn try_from(text: &str) -> Result<Self, Undecodable> {
        Self::try_from(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Who a request belongs to, and what it is called there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Who submitted it.
    pub tenant: TenantName,
    /// What the tenant calls it.
    pub id: RequestId,
}

/// Where a request lies in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which shard.
    pub shard: u32,
    /// Its field in the shard's hashes.
    pub key: Key,
}

impl Identity {
    /// The shard and key that tenant and id give: with `h = SHA-256(u32be len ‖ tenant ‖ u32be len ‖ id)`, the shard is
    /// bytes 0 to 7 of `h` modulo `shards`, the key bytes 8 to 23.
    pub fn place(&self, shards: NonZeroU32) -> Place {
        let mut hash = Sha256::new();
        for part in [self.tenant.as_str().as_bytes(), self.id.as_bytes()] {
            // A name is at most 1024 bytes long.
            hash.update((part.len() as u32).to_be_bytes());
            hash.update(part);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let (mut number, mut key) = ([0; 8], [0; 16]);
        number.copy_from_slice(&hash[..8]);
        key.copy_from_slice(&hash[8..24]);
        let shard = u64::from_be_bytes(number) % u64::from(shards.get());
        Place { shard: shard as u32, key: Key::from(key) }
    }

    /// Packs tenant, id and lane; an empty lane is the tenant's.
    pub(super) fn pack(&self, lane: &str, into: &mut Vec<u8>) {
        for part in [self.tenant.as_str().as_bytes(), self.id.as_bytes(), lane.as_bytes()] {
            into.put_u16(part.len() as u16);
            into.put_slice(part);
        }
    }

    /// Reads what [`Identity::pack`] wrote: the identity and its lane.
    pub(super) fn unpack(names: Bytes) -> Result<(Self, String), Undecodable> {
        let mut names = Reader::new("names", names);
        let broken = names.broken();
        let text = |bytes: Bytes| String::from_utf8(bytes.into()).map_err(|_| broken);
        let tenant = TenantName::try_from(text(names.short()?)?.as_str()).map_err(|_| broken)?;
        let id = RequestId::try_from(names.short()?)?;
        Ok((Self { tenant, id }, text(names.short()?)?))
    }
}

/// The most shards of a queue.
pub const MOST_SHARDS: u32 = 256;

/// The part of a limit that falls to one of `shards` shards: `⌊limit/shards⌋`, and one more for the first ones.
pub fn share(limit: u64, shard: u32, shards: NonZeroU32) -> u64 {
    let shards = u64::from(shards.get());
    limit / shards + u64::from(u64::from(shard) < limit % shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(tenant: &str, id: &str) -> Identity {
        Identity { tenant: tenant.try_into().unwrap(), id: id.try_into().unwrap() }
    }

    #[test]
    fn names_follow_the_grammar() {
        for good in ["q", "a.b_c-9", &"x".repeat(63)] {
            assert!(QueueName::try_from(good).is_ok(), "{good}");
        }
        for bad in ["", "-q", ".q", "Q", "a/b", "a{b}", "a b", "é", &"x".repeat(64)] {
            assert!(QueueName::try_from(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_two_pairs_of_tenant_and_id_share_a_key_by_gluing() {
        let one = NonZeroU32::new(1).unwrap();
        assert_ne!(identity("a", "bc").place(one).key, identity("ab", "c").place(one).key);
    }

    #[test]
    fn the_place_of_a_request_is_frozen() {
        let place = identity("default", "k01").place(NonZeroU32::new(8).unwrap());
        assert_eq!((place.shard, place.key.to_string().as_str()), FROZEN);
    }

    /// SHA-256 of `00000007 "default" 00000003 "k01"`, by another program.
    const FROZEN: (u32, &str) = (7, "1134772cb0047eb549857df75a6fc59d");

    #[test]
    fn a_limit_is_split_without_loss() {
        let shards = NonZeroU32::new(7).unwrap();
        assert_eq!((0..7).map(|shard| share(100, shard, shards)).sum::<u64>(), 100);
        assert_eq!(share(100, 0, shards), 15);
        assert_eq!(share(100, 6, shards), 14);
    }

    #[test]
    fn an_adopted_id_is_text_where_it_can_be() {
        let text =
            |bytes: &'static [u8]| RequestId::try_from(Bytes::from_static(bytes)).unwrap().text();
        assert_eq!(text("é\n".as_bytes()), "é\n");
        assert_eq!(text(b"a\xff"), "a\\xff");
    }

    #[test]
    fn names_survive_packing() {
        let mut packed = Vec::new();
        identity("t", "i").pack("", &mut packed);
        assert_eq!(Identity::unpack(packed.into()).unwrap(), (identity("t", "i"), String::new()));
        assert!(Identity::unpack(Bytes::from_static(b"\0\x05ab")).is_err());
    }
}
