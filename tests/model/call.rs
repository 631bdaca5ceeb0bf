//! What can be asked of a shard.

use holdfast_core::keys::{QUEUES, WORKERS};

use crate::state::{Answer, Body, Failure, Fence, Generation, Handle, Id, Ms, Word};

/// A new request, as its producer sends it.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name.
    pub id: Id,
    /// What its producer named this submission.
    pub generation: Generation,
    /// What is submitted.
    pub body: Body,
    /// When it is too late.
    pub deadline: Ms,
    /// 0: at once.
    pub not_before: Ms,
    /// Sent by a newer version, whose tickets have more fields.
    pub tail: bool,
    /// What its lane may have, as its producer has it in its settings.
    pub limits: Option<Limits>,
}

/// What a lane may have; 0: as much as it likes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many live requests.
    pub requests: i64,
    /// How many bytes of requests and records.
    pub bytes: i64,
    /// Accepted submits a second.
    pub rate: u64,
}

/// A worker's claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Session and call number.
    pub fence: Fence,
    /// How many slots are free.
    pub free: u64,
    /// How long each lease is to last.
    pub lease: Ms,
    /// How many bytes of bodies may be leased.
    pub budget: u64,
    /// Whether the caller holds no suspect elsewhere.
    pub may_suspect: bool,
    /// Beyond this moment the clock has leapt, and nothing is ended for being late.
    pub trusted_until: Ms,
    /// Fewer bytes of bodies than this may come along.
    pub along: u64,
}

/// The end of one attempt. `number`: the status of an answer, the wait of a retry, whether a release was sent, the
/// outcome of a burial.
#[derive(Clone, Debug)]
pub struct Settle {
    /// The claim that leased it.
    pub fence: Fence,
    /// What was attempted.
    pub handle: Handle,
    /// How the attempt ended.
    pub word: Word,
    /// See above.
    pub number: u64,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What is published.
    pub answer: Option<Answer>,
}

/// An operator's word. `decide`: compare and set; else take what another shard decided.
#[derive(Clone, Debug)]
pub struct Overrule {
    /// `paused` or `limit`.
    pub field: &'static str,
    /// Whether this shard decides.
    pub decide: bool,
    /// The version that was seen, or that was decided.
    pub version: u64,
    /// The value; none: cleared.
    pub value: Option<u64>,
    /// The limit of the whole queue.
    pub total: Option<u64>,
}

/// One call of one script.
#[derive(Clone, Debug)]
pub enum Call {
    /// New requests; a record that they meet is kept for `guard` at least.
    Submit {
        /// How long a record that is met is kept on.
        guard: Ms,
        /// The requests.
        items: Vec<Item>,
    },
    /// Leases for free slots.
    Claim(Claim),
    /// Leases prolonged.
    Renew {
        /// How long from now.
        lease: Ms,
        /// Which.
        leases: Vec<(Fence, Handle)>,
    },
    /// Attempts ended.
    Settle(Vec<Settle>),
    /// Generations no longer wanted.
    Cancel(Vec<Handle>),
    /// Dead handle, new generation, deadline (0: as long as it had).
    Redrive(Vec<(Handle, Generation, Ms)>),
    /// Lapsed leases taken back, or named ones.
    Reclaim {
        /// At most so many.
        limit: usize,
        /// What an operator names.
        named: Vec<(Fence, Handle)>,
    },
    /// What is due made claimable, or named ones with the due time that was seen.
    Promote {
        /// At most so many.
        limit: usize,
        /// What an operator names.
        named: Vec<(Handle, Ms)>,
    },
    /// What waited past its deadline is ended.
    Expire {
        /// At most so many of each set.
        limit: usize,
    },
    /// What ended long ago is forgotten.
    Sweep {
        /// At most so many of each end.
        limit: usize,
        /// How old the row of a session may be.
        age: Ms,
    },
    /// Where requests are, and how they ended.
    Read {
        /// How long a record may be to come whole.
        whole: usize,
        /// With a write.
        tick: bool,
        /// Behind so many bytes of records the rest is left for later.
        room: usize,
        /// Which.
        ids: Vec<Id>,
    },
    /// A queue's settings.
    Policy {
        /// The writer's schema.
        schema: u64,
        /// Whether to write, or to compare.
        write: bool,
        /// Field and value; none: not set.
        rows: Vec<(&'static str, Option<u64>)>,
    },
    /// An operator's pause or limit.
    Overrule(Overrule),
    /// A queue's number of shards.
    RegisterQueue {
        /// The queue.
        name: u8,
        /// Its number of shards.
        value: u8,
    },
    /// A worker is seen.
    RegisterWorker {
        /// The worker.
        name: u8,
        /// What it says of itself.
        value: u8,
        /// How old others may be.
        age: Ms,
    },
    /// A worker ended.
    EndWorker {
        /// The worker.
        name: u8,
        /// How old others may be.
        age: Ms,
    },
    /// A token put back.
    Ring,
    /// How much is where.
    Depth,
    /// All that is kept under keys.
    Audit(Vec<Id>),
    /// A call of which one argument is spoiled, the `n`-th way that there is for its script.
    Spoiled {
        /// The call.
        call: Box<Call>,
        /// Which argument, and how.
        way: usize,
    },
}

impl Claim {
    /// Whether what is late may be ended.
    pub fn may_end(&self, now: Ms) -> bool {
        now <= self.trusted_until
    }
}

impl Call {
    /// The script that it calls.
    pub fn script(&self) -> &'static str {
        match self {
            Self::Submit { .. } => "submit",
            Self::Claim(_) => "claim",
            Self::Renew { .. } => "renew",
            Self::Settle(_) => "settle",
            Self::Cancel(_) => "cancel",
            Self::Redrive(_) => "redrive",
            Self::Reclaim { .. } => "reclaim",
            Self::Promote { .. } => "promote",
            Self::Expire { .. } => "expire",
            Self::Sweep { .. } => "sweep",
            Self::Read { .. } => "read",
            Self::Policy { .. } => "policy",
            Self::Overrule(_) => "overrule",
            Self::RegisterQueue { .. } | Self::RegisterWorker { .. } | Self::EndWorker { .. } => {
                "register"
            }
            Self::Ring => "ring",
            Self::Depth => "depth",
            Self::Audit(_) => "audit",
            Self::Spoiled { call, .. } => call.script(),
        }
    }

    /// The registry that a call writes to, if it is not to the shard.
    pub fn registry(&self) -> Option<&'static str> {
        match self {
            Self::RegisterQueue { .. } => Some(QUEUES),
            Self::RegisterWorker { .. } | Self::EndWorker { .. } => Some(WORKERS),
            Self::Spoiled { call, .. } => call.registry(),
            _ => None,
        }
    }
}
