//! The fixed-width names: key, generation, handle, session, fence.

use std::fmt;

use bytes::Bytes;

use super::Undecodable;

macro_rules! fixed {
    ($(#[$doc:meta])* $name:ident, $size:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $size]);

        impl $name {
            /// The bytes as they are stored.
            pub fn as_bytes(&self) -> &[u8; $size] {
                &self.0
            }

            /// The same, as an argument of a script.
            pub fn bytes(&self) -> Bytes {
                Bytes::copy_from_slice(&self.0)
            }
        }

        impl From<[u8; $size]> for $name {
            fn from(bytes: [u8; $size]) -> Self {
                Self(bytes)
            }
        }

        impl TryFrom<&[u8]> for $name {
            type Error = Undecodable;

            fn try_from(bytes: &[u8]) -> Result<Self, Undecodable> {
                bytes.try_into().map(Self).map_err(|_| Undecodable { what: $what })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

macro_rules! hex {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl std::str::FromStr for $name {
            type Err = Undecodable;

            fn from_str(text: &str) -> Result<Self, Undecodable> {
                let broken = Undecodable { what: stringify!($name) };
                let mut bytes = [0; size_of::<Self>()];
                if text.len() != 2 * bytes.len()
                    || !text.bytes().all(|byte| byte.is_ascii_hexdigit())
                {
                    return Err(broken);
                }
                for (at, byte) in bytes.iter_mut().enumerate() {
                    let digits = text.get(2 * at..2 * at + 2).ok_or(broken)?;
                    *byte = u8::from_str_radix(digits, 16).map_err(|_| broken)?;
                }
                Ok(Self(bytes))
            }
        }
    };
}

fixed! {
    /// The field of a request in every hash of its shard: bytes 8 to 23 of the hash of tenant and id.
    Key, 16, "key"
}
fixed! {
    /// One accepted submission of an id, named by 64 random bits that the producer makes once.
    Generation, 8, "generation"
}
fixed! {
    /// A request's member in the sorted sets: sequence ‖ generation ‖ key.
    ///
    /// The sequence comes first, so that equal scores sort by submission; the generation is in it, so that a Redis
    /// that forgot its newest writes never gives one name twice.
    Handle, 32, "handle"
}
fixed! {
    /// A worker process, named by 64 random bits that are new with each start.
    Session, 8, "session"
}
fixed! {
    /// A token unique to one claim: session and call number, 16 hex digits each.
    ///
    /// Every transition out of `leased` compares it.
    Fence, 32, "fence"
}

hex!(Key);
hex!(Generation);
hex!(Handle);
hex!(Session);

impl Generation {
    /// A new one.
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl Session {
    /// A new one.
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl Handle {
    /// Joins its parts.
    pub fn new(sequence: u64, generation: Generation, key: Key) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&sequence.to_be_bytes());
        bytes[8..16].copy_from_slice(&generation.0);
        bytes[16..].copy_from_slice(&key.0);
        Self(bytes)
    }

    /// The shard's submission number.
    pub fn sequence(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_be_bytes(bytes)
    }

    /// Which submission of its id.
    pub fn generation(&self) -> Generation {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[8..16]);
        Generation(bytes)
    }

    /// The field in the shard's hashes.
    pub fn key(&self) -> Key {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[16..]);
        Key(bytes)
    }
}

impl Fence {
    /// The fence of one claim call.
    pub fn new(session: Session, call: u64) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(format!("{session}{call:016x}").as_bytes());
        Self(bytes)
    }

    /// The session that it belongs to, if it is a fence of this version.
    pub fn session(&self) -> Option<Session> {
        std::str::from_utf8(&self.0[..16]).ok()?.parse().ok()
    }

    /// Splits a member of `leased`.
    pub fn split_member(member: &[u8]) -> Option<(Self, Handle)> {
        let (fence, rest) = member.split_at_checked(32)?;
        let handle = rest.strip_prefix(b"|")?;
        Some((Self::try_from(fence).ok()?, Handle::try_from(handle).ok()?))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_gives_back_its_parts() {
        let (generation, key) = (Generation::from([7; 8]), Key::from([9; 16]));
        let handle = Handle::new(258, generation, key);
        assert_eq!((handle.sequence(), handle.generation(), handle.key()), (258, generation, key));
        assert_eq!(handle.to_string().parse::<Handle>().unwrap(), handle);
    }

    #[test]
    fn a_fence_is_32_hex_digits_and_names_its_session() {
        let session = Session::from([0xab; 8]);
        let fence = Fence::new(session, 0x2a);
        assert_eq!(fence.to_string(), "abababababababab000000000000002a");
        assert_eq!(fence.session(), Some(session));
    }

    #[test]
    fn text_that_is_no_hex_is_refused() {
        assert!("00".parse::<Key>().is_err());
        assert!("zz".repeat(16).parse::<Key>().is_err());
        assert!("é".repeat(16).parse::<Key>().is_err());
    }
}
