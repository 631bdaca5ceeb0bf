//! The packed small state of a request. Scripts change it in place; this is how people read it.

use bytes::{BufMut, Bytes};
use sha2::{Digest as _, Sha256};

use super::{
    Failure, Fence, Generation, Handle, Identity, Key, Outcome, Undecodable, wire::Reader,
};

const VERSION: u8 = 1;
const CANCEL_ASKED: u8 = 1;

/// SHA-256 over tenant, id and the submitted item as received: the "same bytes" of the id rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of a submission.
    pub fn of(identity: &Identity, item: &[u8]) -> Self {
        let mut hash = Sha256::new();
        for part in [identity.tenant.as_str().as_bytes(), identity.id.as_bytes(), item] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

/// How an attempt was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The outcome was published.
    Ack,
    /// Sent to `delayed`.
    Retry,
    /// Handed back.
    Release,
    /// Moved to `dead`.
    Bury,
}

impl Settled {
    /// The word that scripts and people use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Retry => "retry",
            Self::Release => "release",
            Self::Bury => "bury",
        }
    }

    pub(crate) fn from_word(word: &[u8]) -> Option<Self> {
        [Self::Ack, Self::Retry, Self::Release, Self::Bury]
            .into_iter()
            .find(|kind| kind.word().as_bytes() == word)
    }

    /// The same in a ticket.
    pub(crate) fn mark(self) -> u8 {
        match self {
            Self::Ack => b'a',
            Self::Retry => b't',
            Self::Release => b'r',
            Self::Bury => b'b',
        }
    }

    fn from_mark(mark: u8) -> Option<Self> {
        [Self::Ack, Self::Retry, Self::Release, Self::Bury]
            .into_iter()
            .find(|kind| kind.mark() == mark)
    }
}

/// The generation that a redrive replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    /// Which it was.
    pub generation: Generation,
    /// How it ended; none if its record was lost.
    pub outcome: Option<Outcome>,
    /// When it ended, in ms of the Redis clock.
    pub ended_at: u64,
}

/// A value of the `ticket` hash. Times are ms of the Redis clock.
///
/// Layout: version ‖ flags ‖ sequence u64 ‖ generation ‖ digest ‖ deadline u64 ‖ not_before u64 ‖ submitted_at u64 ‖ body
/// size u32 ‖ attempts u32 ‖ lapses u16 ‖ forgiven u16 ‖ fence ‖ claimed_at u64 ‖ fence and word of the last settle ‖ last
/// failure (code u8, status u16, when u64) ‖ previous (generation, outcome u8, end u64) ‖ u16 length ‖ names ‖ what a
/// newer version added, carried along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its caller wants it stopped.
    pub cancel_asked: bool,
    /// The shard's submission number.
    pub sequence: u64,
    /// Which submission of the id.
    pub generation: Generation,
    /// What "the same bytes" means for it.
    pub digest: Digest,
    /// After this, no answer is wanted.
    pub deadline: u64,
    /// Not to be started before; 0: at once.
    pub not_before: u64,
    /// When it was accepted.
    pub submitted_at: u64,
    /// Length of the body, in bytes.
    pub body_size: u32,
    /// Dispatches so far, the running one included.
    pub attempts: u32,
    /// Leases that ran out.
    pub lapses: u16,
    /// Leases that an outage ended.
    pub forgiven: u16,
    /// The running lease.
    pub fence: Option<Fence>,
    /// When the running or last lease was claimed; 0: never.
    pub claimed_at: u64,
    /// Who settled last, and how.
    pub last_settle: Option<(Fence, Settled)>,
    /// The last failure, and when.
    pub failure: Option<(Failure, u64)>,
    /// The generation that a redrive replaced.
    pub previous: Option<Previous>,
    /// Whose it is; none if that was lost.
    pub identity: Option<Identity>,
    /// What limits are counted by; empty: the tenant.
    pub lane: String,
}

/// What a producer says of a new request. The script adds sequence and submitted_at.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Made once, also for every repeat of the call.
    pub generation: Generation,
    /// The submission's digest.
    pub digest: Digest,
    /// Deadline in Unix ms.
    pub deadline: u64,
    /// Start in Unix ms; 0: at once.
    pub not_before: u64,
    /// Length of the body, in bytes.
    pub body_size: u32,
}

impl Draft {
    /// Packs a ticket for the submit script to complete.
    pub fn pack(&self, identity: &Identity, lane: &str) -> Bytes {
        let mut names = Vec::new();
        identity.pack(lane, &mut names);
        let mut packed = Vec::with_capacity(189 + names.len());
        packed.put_slice(&[VERSION, 0]);
        packed.put_u64(0);
        packed.put_slice(self.generation.as_bytes());
        packed.put_slice(&self.digest.0);
        packed.put_u64(self.deadline);
        packed.put_u64(self.not_before);
        packed.put_u64(0);
        packed.put_u32(self.body_size);
        // Attempts, lapses, fences, settles, failures, previous: nothing has happened yet.
        packed.put_bytes(0, 187 - packed.len());
        packed.put_u16(names.len() as u16);
        packed.put_slice(&names);
        if cfg!(feature = "next-field") {
            packed.put_slice(super::NEXT_FIELD);
        }
        packed.into()
    }
}

impl Ticket {
    /// Reads it.
    pub fn unpack(packed: Bytes) -> Result<Self, Undecodable> {
        let mut reader = Reader::new("ticket", packed);
        if reader.u8()? != VERSION {
            return Err(reader.broken());
        }
        let cancel_asked = reader.u8()? & CANCEL_ASKED != 0;
        let sequence = reader.u64()?;
        let generation = Generation::from(reader.array::<8>()?);
        let digest = Digest(reader.array()?);
        let (deadline, not_before, submitted_at) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (body_size, attempts) = (reader.u32()?, reader.u32()?);
        let (lapses, forgiven) = (reader.u16()?, reader.u16()?);
        let fence = read_fence(reader.array()?);
        let claimed_at = reader.u64()?;
        let settler = read_fence(reader.array()?);
        let last_settle = settler.zip(Settled::from_mark(reader.u8()?));
        let failure = Failure::unpack(reader.u8()?, reader.u16()?);
        let failed_at = reader.u64()?;
        let previous = Generation::from(reader.array::<8>()?);
        let (outcome, ended_at) = (reader.u8()?, reader.u64()?);
        let previous = (previous.as_bytes() != &[0; 8]).then(|| Previous {
            generation: previous,
            outcome: Outcome::from_number(outcome.into()),
            ended_at,
        });
        let (identity, lane) = Identity::unpack(reader.short()?).ok().unzip();
        Ok(Self {
            cancel_asked,
            sequence,
            generation,
            digest,
            deadline,
            not_before,
            submitted_at,
            body_size,
            attempts,
            lapses,
            forgiven,
            fence,
            claimed_at,
            last_settle,
            failure: failure.map(|failure| (failure, failed_at)),
            previous,
            identity,
            lane: lane.unwrap_or_default(),
        })
    }

    /// Its member in the sorted sets.
    pub fn handle(&self, key: Key) -> Handle {
        Handle::new(self.sequence, self.generation, key)
    }

    /// Two lapses, or three with the forgiven ones counted: it waits apart from the others.
    pub fn is_suspect(&self) -> bool {
        self.lapses >= 2 || u32::from(self.lapses) + u32::from(self.forgiven) >= 3
    }
}

fn read_fence(bytes: [u8; 32]) -> Option<Fence> {
    (bytes != [0; 32]).then(|| Fence::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity { tenant: "t".try_into().unwrap(), id: "i".try_into().unwrap() }
    }

    #[test]
    fn a_draft_is_a_ticket_to_which_nothing_has_happened() {
        let draft = Draft {
            generation: Generation::from([3; 8]),
            digest: Digest::of(&identity(), b"{}"),
            deadline: 1_800_000_000_000,
            not_before: 0,
            body_size: 2,
        };
        let ticket = Ticket::unpack(draft.pack(&identity(), "")).unwrap();
        assert_eq!(ticket.generation, draft.generation);
        assert_eq!((ticket.deadline, ticket.body_size, ticket.attempts), (1_800_000_000_000, 2, 0));
        assert_eq!(
            (ticket.fence, ticket.last_settle, ticket.failure, ticket.previous),
            (None, None, None, None)
        );
        assert_eq!(ticket.identity, Some(identity()));
    }

    #[test]
    fn the_digest_tells_tenant_id_and_bytes_apart() {
        let other = Identity { tenant: "t2".try_into().unwrap(), ..identity() };
        let digest = Digest::of(&identity(), b"{}");
        assert_ne!(digest, Digest::of(&other, b"{}"));
        assert_ne!(digest, Digest::of(&identity(), b"{ }"));
        assert_eq!(digest, Digest::of(&identity(), b"{}"));
    }

    #[test]
    fn a_cut_ticket_is_refused() {
        let draft = Draft {
            generation: Generation::from([3; 8]),
            digest: Digest([0; 32]),
            deadline: 1,
            not_before: 0,
            body_size: 0,
        };
        let packed = draft.pack(&identity(), "");
        for end in 0..packed.len() {
            assert!(Ticket::unpack(packed.slice(..end)).is_err(), "{end}");
        }
    }
}
