//! What a shard holds, without a byte of layout: who is where, and what is remembered of it.
//!
//! Names are numbers here; [`crate::names`] gives them bytes that sort the same way. A value of this type can be
//! cloned, compared and hashed, so that an exhaustive search can use it as it is.

use std::collections::BTreeMap;

/// A moment or a length of time, in ms.
pub(crate) type Ms = u64;

/// A caller's name for a request; its key follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u8);

/// One accepted submission of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub(crate) u32);

/// Which bytes were submitted: what the id rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Body(pub(crate) u8);

/// Which answer a record holds; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer(pub(crate) u8);

/// A worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Session(pub(crate) u8);

/// A token unique to one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fence {
    pub(crate) session: Session,
    pub(crate) call: u64,
}

/// No owner: what stands in a ticket that has none.
pub(crate) const NOBODY: Fence = Fence { session: Session(u8::MAX), call: 0 };

/// A generation's member in the sorted sets; equal scores sort by submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Handle {
    pub(crate) sequence: u64,
    pub(crate) generation: Generation,
    pub(crate) id: Id,
}

/// Where a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Home {
    Pending,
    Suspects,
    Delayed,
    Leased(Fence),
    Finished,
    Dead,
}

impl Home {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Suspects => "suspects",
            Self::Delayed => "delayed",
            Self::Leased(_) => "leased",
            Self::Finished => "finished",
            Self::Dead => "dead",
        }
    }

    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Finished | Self::Dead)
    }
}

/// A generation's home, and the time that home is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    pub(crate) home: Home,
    pub(crate) till: Ms,
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Outcome {
    Answered = 1,
    DeadlineExceeded = 2,
    Cancelled = 3,
    GaveUp = 4,
    KilledWorkers = 5,
    Unusable = 6,
    AnswerTooLarge = 7,
}

/// How an attempt was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Word {
    Ack,
    Retry,
    Release,
    Bury,
}

impl Word {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Retry => "retry",
            Self::Release => "release",
            Self::Bury => "bury",
        }
    }
}

/// Why an attempt failed: a code, and the gateway's status.
pub(crate) type Failure = (u8, u16);

/// A lease that was not settled.
pub(crate) const LEASE_LOST: Failure = (11, 0);

/// The small state of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    /// Its caller wants it stopped.
    pub(crate) asked: bool,
    pub(crate) sequence: u64,
    pub(crate) generation: Generation,
    /// What was submitted; none in a ticket that was lost and mended.
    pub(crate) body: Option<Body>,
    pub(crate) deadline: Ms,
    pub(crate) not_before: Ms,
    pub(crate) submitted_at: Ms,
    pub(crate) attempts: u32,
    pub(crate) lapses: u16,
    pub(crate) forgiven: u16,
    pub(crate) fence: Option<Fence>,
    pub(crate) claimed_at: Option<Ms>,
    pub(crate) settled: Option<(Fence, Word)>,
    pub(crate) failure: Option<(Failure, Ms)>,
    /// The generation that a redrive replaced: how and when it ended, if that was still known.
    pub(crate) previous: Option<(Generation, Option<(Outcome, Ms)>)>,
    /// Whose it is.
    pub(crate) names: Names,
    /// Whether a newer version added fields, which are to be carried along.
    pub(crate) tail: bool,
}

impl Ticket {
    /// Two lapses, or three with the forgiven ones counted.
    pub(crate) fn is_suspect(&self) -> bool {
        self.lapses >= 2 || self.lapses + self.forgiven >= 3
    }

    pub(crate) fn handle(&self, id: Id) -> Handle {
        Handle { sequence: self.sequence, generation: self.generation, id }
    }
}

/// Whose a request is, as its ticket or record tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Names {
    Of(Id),
    Lost,
    /// Lengths that lie.
    Garbled,
}

/// What lies in the place of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Paper {
    Whole(Ticket),
    /// Bytes that are no ticket; the number says which.
    Broken(u8),
}

/// The published outcome of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) outcome: Outcome,
    pub(crate) generation: Generation,
    pub(crate) ended_at: Ms,
    pub(crate) attempts: u32,
    pub(crate) lapses: u16,
    pub(crate) forgiven: u16,
    pub(crate) failure: Option<Failure>,
    pub(crate) status: u16,
    pub(crate) names: Names,
    pub(crate) answer: Answer,
}

/// What is kept of a session: its last claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) call: u64,
    pub(crate) seen: Ms,
    pub(crate) handles: Vec<Handle>,
}

/// An operator's word over the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Override {
    pub(crate) version: u64,
    pub(crate) value: Option<u64>,
    pub(crate) total: Option<u64>,
}

/// What a shard keeps beside its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Meta {
    pub(crate) seq: u64,
    /// Bytes of requests and records held; none until the first.
    pub(crate) bytes: Option<i64>,
    pub(crate) beat: Option<Ms>,
    pub(crate) forgiven_to: Option<Ms>,
    pub(crate) longest_lease: Option<Ms>,
    /// The suspect that was leased last.
    pub(crate) suspect: Option<(Fence, Handle)>,
    pub(crate) tick: u64,
    pub(crate) schema: Option<u64>,
    pub(crate) policy_version: u64,
    pub(crate) policy: BTreeMap<&'static str, u64>,
    pub(crate) overrides: BTreeMap<&'static str, Override>,
}

/// What a lane holds: live requests, and bytes of requests and records; and until when its rate is used up, in us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) requests: i64,
    pub(crate) bytes: i64,
    pub(crate) used_till: Option<u64>,
}

/// A whole shard, and the two registries beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Every generation has one home: that is what a map can say.
    pub(crate) homes: BTreeMap<Handle, Spot>,
    pub(crate) tickets: BTreeMap<Id, Paper>,
    pub(crate) requests: BTreeMap<Id, Body>,
    pub(crate) records: BTreeMap<Id, Record>,
    pub(crate) sessions: BTreeMap<Session, Row>,
    pub(crate) meta: Meta,
    pub(crate) lanes: BTreeMap<&'static str, Held>,
    /// Tokens in the doorbell.
    pub(crate) bell: usize,
    pub(crate) queues: BTreeMap<u8, u8>,
    pub(crate) workers: BTreeMap<u8, (Ms, u8)>,
    /// When workers ended.
    pub(crate) ended_workers: BTreeMap<u8, Ms>,
}

/// What the ticket under a handle's key says of that handle.
pub(crate) enum Named {
    /// It is this generation's.
    This(Ticket),
    /// It is another generation's.
    Other,
    /// It is missing, or not to be read.
    Unreadable,
}

impl State {
    pub(crate) fn ticket(&self, handle: Handle) -> Named {
        match self.tickets.get(&handle.id) {
            Some(Paper::Whole(ticket)) if ticket.handle(handle.id) == handle => {
                Named::This(ticket.clone())
            }
            Some(Paper::Whole(_)) => Named::Other,
            _ => Named::Unreadable,
        }
    }

    /// The ticket under a key, whichever generation it is of.
    pub(crate) fn readable(&self, id: Id) -> Option<&Ticket> {
        match self.tickets.get(&id)? {
            Paper::Whole(ticket) => Some(ticket),
            Paper::Broken(_) => None,
        }
    }

    /// Whether this very lease is held: membership is ownership.
    pub(crate) fn holds(&self, fence: Fence, handle: Handle) -> bool {
        self.homes.get(&handle).is_some_and(|spot| spot.home == Home::Leased(fence))
    }

    /// What waits or is kept in a home, in its order.
    pub(crate) fn line(&self, home: Home) -> Vec<(Ms, Handle)> {
        let here = self.homes.iter().filter(|(_, spot)| spot.home == home);
        let mut line: Vec<_> = here.map(|(handle, spot)| (spot.till, *handle)).collect();
        line.sort();
        line
    }

    /// The running leases, the next to end first.
    pub(crate) fn leases(&self) -> Vec<(Ms, Fence, Handle)> {
        let lease = |(handle, spot): (&Handle, &Spot)| match spot.home {
            Home::Leased(fence) => Some((spot.till, fence, *handle)),
            _ => None,
        };
        let mut leases: Vec<_> = self.homes.iter().filter_map(lease).collect();
        leases.sort();
        leases
    }

    /// How many generations have not ended.
    pub(crate) fn live(&self) -> u64 {
        self.homes.values().filter(|spot| !spot.home.is_end()).count() as u64
    }

    pub(crate) fn policy(&self, field: &str) -> Option<u64> {
        self.meta.policy.get(field).copied()
    }

    pub(crate) fn overruled(&self, field: &str) -> Option<u64> {
        self.meta.overrides.get(field)?.value
    }

    /// How many leases there may be at once: an operator's limit wins over the policy's.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.overruled("limit").or(self.policy("in_flight"))
    }
}
