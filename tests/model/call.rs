//! What can be asked of a shard.

use holdfast_core::keys::{QUEUES, WORKERS};

use crate::state::{Answer, Body, Failure, Fence, Generation, Handle, Id, Ms, Word};

/// A new request, as its producer sends it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: Id,
    pub(crate) generation: Generation,
    pub(crate) body: Body,
    pub(crate) deadline: Ms,
    /// 0: at once.
    pub(crate) not_before: Ms,
    /// Sent by a newer version, whose tickets have more fields.
    pub(crate) tail: bool,
    /// What its lane may have, as its producer has it in its settings.
    pub(crate) limits: Option<Limits>,
}

/// What a lane may have; 0: as much as it likes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) requests: i64,
    pub(crate) bytes: i64,
    /// Accepted submits a second.
    pub(crate) rate: u64,
}

/// A worker's claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) fence: Fence,
    pub(crate) free: u64,
    pub(crate) lease: Ms,
    pub(crate) budget: u64,
    pub(crate) may_suspect: bool,
    /// Beyond this moment the clock has leapt, and nothing is ended for being late.
    pub(crate) trusted_until: Ms,
    /// Fewer bytes of bodies than this may come along.
    pub(crate) along: u64,
}

/// The end of one attempt. `number`: the status of an answer, the wait of a retry, whether a release was sent, the
/// outcome of a burial.
#[derive(Clone, Debug)]
pub(crate) struct Settle {
    pub(crate) fence: Fence,
    pub(crate) handle: Handle,
    pub(crate) word: Word,
    pub(crate) number: u64,
    pub(crate) failure: Option<Failure>,
    pub(crate) answer: Option<Answer>,
}

/// An operator's word. `decide`: compare and set; else take what another shard decided.
#[derive(Clone, Debug)]
pub(crate) struct Overrule {
    pub(crate) field: &'static str,
    pub(crate) decide: bool,
    pub(crate) version: u64,
    pub(crate) value: Option<u64>,
    pub(crate) total: Option<u64>,
}

/// One call of one script.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Submit {
        guard: Ms,
        items: Vec<Item>,
    },
    Claim(Claim),
    Renew {
        lease: Ms,
        leases: Vec<(Fence, Handle)>,
    },
    Settle(Vec<Settle>),
    Cancel(Vec<Handle>),
    /// Dead handle, new generation, deadline (0: as long as it had).
    Redrive(Vec<(Handle, Generation, Ms)>),
    Reclaim {
        limit: usize,
        named: Vec<(Fence, Handle)>,
    },
    /// Named ones with the due time that was seen.
    Promote {
        limit: usize,
        named: Vec<(Handle, Ms)>,
    },
    Expire {
        limit: usize,
    },
    Sweep {
        limit: usize,
        age: Ms,
    },
    Read {
        whole: bool,
        tick: bool,
        ids: Vec<Id>,
    },
    Policy {
        schema: u64,
        write: bool,
        rows: Vec<(&'static str, Option<u64>)>,
    },
    Overrule(Overrule),
    RegisterQueue {
        name: u8,
        value: u8,
    },
    RegisterWorker {
        name: u8,
        value: u8,
        age: Ms,
    },
    EndWorker {
        name: u8,
        age: Ms,
    },
    Ring,
    Depth,
    Audit(Vec<Id>),
    /// A call of which one argument is spoiled, the `n`-th way that there is for its script.
    Spoiled {
        call: Box<Call>,
        way: usize,
    },
}

impl Claim {
    /// Whether what is late may be ended.
    pub(crate) fn may_end(&self, now: Ms) -> bool {
        now <= self.trusted_until
    }
}

impl Call {
    pub(crate) fn script(&self) -> &'static str {
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
    pub(crate) fn registry(&self) -> Option<&'static str> {
        match self {
            Self::RegisterQueue { .. } => Some(QUEUES),
            Self::RegisterWorker { .. } | Self::EndWorker { .. } => Some(WORKERS),
            Self::Spoiled { call, .. } => call.registry(),
            _ => None,
        }
    }
}
