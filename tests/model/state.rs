//! What a shard holds, without a byte of layout: who is where, and what is remembered of it.
//!
//! Names are numbers here; [`crate::names`] gives them bytes that sort the same way. A value of this type can be
//! cloned, compared and hashed, so that an exhaustive search can use it as it is.

use litemap::LiteMap;

use crate::rules::Rules;

/// Few entries in their order: smaller and faster to copy than a tree, of which an exhaustive search makes millions.
pub type Map<K, V> = LiteMap<K, V>;

/// A moment or a length of time, in ms.
pub type Ms = u64;

/// A caller's name for a request; its key follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u8);

/// One accepted submission of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

/// Which bytes were submitted: what the id rule compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Body(pub u8);

/// Which answer a record holds; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer(pub u8);

/// A worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u8);

/// A token unique to one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The worker process.
    pub session: Session,
    /// Its claim.
    pub call: u64,
}

/// No owner: what stands in a ticket that has none.
pub const NOBODY: Fence = Fence { session: Session(u8::MAX), call: 0 };

/// A generation's member in the sorted sets; equal scores sort by submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// The shard's count of submissions.
    pub sequence: u64,
    /// The submission.
    pub generation: Generation,
    /// The id.
    pub id: Id,
}

/// Where a generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Home {
    /// It waits.
    Pending,
    /// It waits, apart: it may kill its workers.
    Suspects,
    /// It waits until it is due.
    Delayed,
    /// An attempt runs.
    Leased(Fence),
    /// It ended.
    Finished,
    /// It ended, and is kept whole for an operator.
    Dead,
}

impl Home {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Suspects => "suspects",
            Self::Delayed => "delayed",
            Self::Leased(_) => "leased",
            Self::Finished => "finished",
            Self::Dead => "dead",
        }
    }

    /// Whether what is there has ended.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Finished | Self::Dead)
    }
}

/// A generation's home, and the time that home is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spot {
    /// Where.
    pub home: Home,
    /// Deadline, due, end of the lease or of the retention.
    pub till: Ms,
}

/// How a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The gateway answered.
    Answered = 1,
    /// Nobody answered in time.
    DeadlineExceeded = 2,
    /// Its caller no longer wanted it.
    Cancelled = 3,
    /// Every attempt failed.
    GaveUp = 4,
    /// Too many leases of it lapsed.
    KilledWorkers = 5,
    /// It can't be read.
    Unusable = 6,
    /// Its answer is over the limit.
    AnswerTooLarge = 7,
}

/// How an attempt was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// There is an answer.
    Ack,
    /// It failed, and is tried again later.
    Retry,
    /// It is handed back.
    Release,
    /// It failed for good.
    Bury,
}

impl Word {
    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Retry => "retry",
            Self::Release => "release",
            Self::Bury => "bury",
        }
    }
}

/// Why an attempt failed: a code, and the gateway's status.
pub type Failure = (u8, u16);

/// A lease that was not settled.
pub const LEASE_LOST: Failure = (11, 0);

/// The small state of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Its caller wants it stopped.
    pub asked: bool,
    /// The shard's count of submissions.
    pub sequence: u64,
    /// The submission.
    pub generation: Generation,
    /// What was submitted; none in a ticket that was lost and mended.
    pub body: Option<Body>,
    /// When it is too late.
    pub deadline: Ms,
    /// When it may start; 0: at once.
    pub not_before: Ms,
    /// When it was accepted, or redriven.
    pub submitted_at: Ms,
    /// How often it was dispatched.
    pub attempts: u32,
    /// How many leases of it lapsed.
    pub lapses: u16,
    /// How many lapsed in an outage.
    pub forgiven: u16,
    /// Whose it is.
    pub fence: Option<Fence>,
    /// Since when, or since when it was.
    pub claimed_at: Option<Ms>,
    /// The last settle: by whom, and what.
    pub settled: Option<(Fence, Word)>,
    /// The last failure, and when.
    pub failure: Option<(Failure, Ms)>,
    /// The generation that a redrive replaced: how and when it ended, if that was still known.
    pub previous: Option<(Generation, Option<(Outcome, Ms)>)>,
    /// Whose it is.
    pub names: Names,
    /// Whether a newer version added fields, which are to be carried along.
    pub tail: bool,
}

impl Ticket {
    /// Two lapses, or three with the forgiven ones counted.
    pub fn is_suspect(&self) -> bool {
        self.lapses >= 2 || self.lapses + self.forgiven >= 3
    }

    /// Its member in the sorted sets.
    pub fn handle(&self, id: Id) -> Handle {
        Handle { sequence: self.sequence, generation: self.generation, id }
    }
}

/// Whose a request is, as its ticket or record tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Names {
    /// This id's.
    Of(Id),
    /// Nobody knows.
    Lost,
    /// Lengths that lie, in one of several ways.
    Garbled(u8),
}

/// What lies in the place of a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Paper {
    /// A ticket.
    Whole(Ticket),
    /// Bytes that are no ticket; the number says which.
    Broken(u8),
}

/// The published outcome of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// How it ended.
    pub outcome: Outcome,
    /// What ended.
    pub generation: Generation,
    /// When.
    pub ended_at: Ms,
    /// How often it was dispatched.
    pub attempts: u32,
    /// How many leases of it lapsed.
    pub lapses: u16,
    /// How many lapsed in an outage.
    pub forgiven: u16,
    /// Its last failure.
    pub failure: Option<Failure>,
    /// The gateway's status.
    pub status: u16,
    /// Whose it is.
    pub names: Names,
    /// What was answered.
    pub answer: Answer,
}

/// What is kept of a session: its last claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Its number.
    pub call: u64,
    /// When it was last seen.
    pub seen: Ms,
    /// What it leased.
    pub handles: Vec<Handle>,
}

/// An operator's word over the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Override {
    /// How often it was changed.
    pub version: u64,
    /// The value; none: cleared.
    pub value: Option<u64>,
    /// The limit of the whole queue.
    pub total: Option<u64>,
}

/// What a shard keeps beside its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Meta {
    /// How many were submitted.
    pub seq: u64,
    /// Bytes of requests and records held; none until the first.
    pub bytes: Option<i64>,
    /// When somebody last renewed or reclaimed.
    pub beat: Option<Ms>,
    /// Leases that end until then cost no lapse.
    pub forgiven_to: Option<Ms>,
    /// The longest lease that is out.
    pub longest_lease: Option<Ms>,
    /// The suspect that was leased last.
    pub suspect: Option<(Fence, Handle)>,
    /// How many reads asked for a write.
    pub tick: u64,
    /// The schema of the keys.
    pub schema: Option<u64>,
    /// How often the policy was written.
    pub policy_version: u64,
    /// The queue's settings.
    pub policy: Map<&'static str, u64>,
    /// What operators said.
    pub overrides: Map<&'static str, Override>,
}

/// What a lane holds: live requests, and bytes of requests and records; and until when its rate is used up, in us.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held {
    /// How many live requests.
    pub requests: i64,
    /// How many bytes of requests and records.
    pub bytes: i64,
    /// Until when its rate is used up, in us.
    pub used_till: Option<u64>,
}

/// A whole shard, and the two registries beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// Every generation has one home: that is what a map can say.
    pub homes: Map<Handle, Spot>,
    /// The small state of each request.
    pub tickets: Map<Id, Paper>,
    /// What was submitted.
    pub requests: Map<Id, Body>,
    /// How each ended.
    pub records: Map<Id, Record>,
    /// The last claim of each session.
    pub sessions: Map<Session, Row>,
    /// What is kept beside them.
    pub meta: Meta,
    /// What each lane holds.
    pub lanes: Map<&'static str, Held>,
    /// Tokens in the doorbell.
    pub bell: usize,
    /// Which rules hold; nothing that a server would hold.
    pub rules: Rules,
    /// Shards of each queue.
    pub queues: Map<u8, u8>,
    /// When each worker was seen, and what it said.
    pub workers: Map<u8, (Ms, u8)>,
    /// When workers ended.
    pub ended_workers: Map<u8, Ms>,
}

/// What the ticket under a handle's key says of that handle.
pub enum Named {
    /// It is this generation's.
    This(Ticket),
    /// It is another generation's.
    Other,
    /// It is missing, or not to be read.
    Unreadable,
}

impl State {
    /// The ticket of this very handle.
    pub fn ticket(&self, handle: Handle) -> Named {
        match self.tickets.get(&handle.id) {
            Some(Paper::Whole(ticket)) if ticket.handle(handle.id) == handle => {
                Named::This(ticket.clone())
            }
            Some(Paper::Whole(_)) => Named::Other,
            _ => Named::Unreadable,
        }
    }

    /// The ticket under a key, whichever generation it is of.
    pub fn readable(&self, id: Id) -> Option<&Ticket> {
        match self.tickets.get(&id)? {
            Paper::Whole(ticket) => Some(ticket),
            Paper::Broken(_) => None,
        }
    }

    /// Whether this very lease is held: membership is ownership.
    pub fn holds(&self, fence: Fence, handle: Handle) -> bool {
        self.homes.get(&handle).is_some_and(|spot| spot.home == Home::Leased(fence))
    }

    /// What waits or is kept in a home, in its order.
    pub fn line(&self, home: Home) -> Vec<(Ms, Handle)> {
        let here = self.homes.iter().filter(|(_, spot)| spot.home == home);
        let mut line: Vec<_> = here.map(|(handle, spot)| (spot.till, *handle)).collect();
        line.sort();
        line
    }

    /// The running leases, the next to end first.
    pub fn leases(&self) -> Vec<(Ms, Fence, Handle)> {
        let lease = |(handle, spot): (&Handle, &Spot)| match spot.home {
            Home::Leased(fence) => Some((spot.till, fence, *handle)),
            _ => None,
        };
        let mut leases: Vec<_> = self.homes.iter().filter_map(lease).collect();
        leases.sort();
        leases
    }

    /// How many suspects are leased.
    pub fn leased_suspects(&self) -> usize {
        let suspect =
            |handle| matches!(self.ticket(handle), Named::This(ticket) if ticket.is_suspect());
        self.leases().into_iter().filter(|(_, _, handle)| suspect(*handle)).count()
    }

    /// How many generations have not ended.
    pub fn live(&self) -> u64 {
        self.homes.values().filter(|spot| !spot.home.is_end()).count() as u64
    }

    /// A setting.
    pub fn policy(&self, field: &str) -> Option<u64> {
        self.meta.policy.get(field).copied()
    }

    /// What an operator said, if it stands.
    pub fn overruled(&self, field: &str) -> Option<u64> {
        self.meta.overrides.get(field)?.value
    }

    /// How many leases there may be at once: an operator's limit wins over the policy's.
    pub fn limit(&self) -> Option<u64> {
        self.overruled("limit").or(self.policy("in_flight"))
    }
}
