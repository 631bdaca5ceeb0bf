//! What goes wrong, in three lanes at once: processes, Redis and the way to it, the gateway.

mod gateway;
mod processes;
mod store;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::dice::Dice;
use crate::ledger::At;
use crate::stage::Stage;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    WorkerKilled,
    WorkerFrozen,
    WorkerStopped,
    WorkerSkewed,
    ProducerKilled,
    ReclaimerKilled,
    Rolled,
    RedisKilled,
    RedisPaused,
    RedisFull,
    RedisBusy,
    RepliesLost,
    BlackHole,
    Refusals,
    Unavailable,
    Resets,
    Trickles,
}

/// Where faults come from, each lane one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Processes,
    Store,
    Gateway,
}

/// A fault that happened.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) from: At,
    pub(crate) till: At,
    /// How much of what [`Kind::hits`] names it has hit.
    pub(crate) hit: u64,
}

impl Lane {
    pub(crate) const ALL: [Self; 3] = [Self::Processes, Self::Store, Self::Gateway];

    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Processes => &[
                Kind::WorkerKilled,
                Kind::WorkerFrozen,
                Kind::WorkerStopped,
                Kind::WorkerSkewed,
                Kind::ProducerKilled,
                Kind::ReclaimerKilled,
                Kind::Rolled,
            ],
            Self::Store => &[
                Kind::RedisKilled,
                Kind::RedisPaused,
                Kind::RedisFull,
                Kind::RedisBusy,
                Kind::RepliesLost,
                Kind::BlackHole,
            ],
            Self::Gateway => &[Kind::Refusals, Kind::Unavailable, Kind::Resets, Kind::Trickles],
        }
    }

    /// Lets one fault after another happen until `stop`, each kind once before any comes again.
    pub(crate) async fn run(
        self,
        stage: Arc<Stage>,
        seed: u64,
        stop: CancellationToken,
    ) -> Vec<Fault> {
        let mut dice = Dice::new(seed ^ (self as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        let (mut deck, mut faults) = (Vec::new(), Vec::new());
        loop {
            tokio::select! {
                () = sleep(Duration::from_millis(400 + dice.below(800) as u64)) => {}
                () = stop.cancelled() => return faults,
            }
            if deck.is_empty() {
                deck = self.kinds().to_vec();
            }
            let kind = deck.swap_remove(dice.below(deck.len()));
            let from = stage.ledger.now();
            let hit = match self {
                Self::Processes => processes::happen(kind, &stage, &mut dice).await,
                Self::Store => store::happen(kind, &stage, &mut dice).await,
                Self::Gateway => gateway::happen(kind, &stage, &mut dice).await,
            };
            faults.push(Fault { kind, from, till: stage.ledger.now(), hit });
        }
    }
}

impl Kind {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Lane::ALL.into_iter().flat_map(|lane| lane.kinds().iter().copied())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WorkerKilled => "worker: SIGKILL",
            Self::WorkerFrozen => "worker: SIGSTOP for longer than its lease",
            Self::WorkerStopped => "worker: SIGTERM",
            Self::WorkerSkewed => "worker: clock two hours off",
            Self::ProducerKilled => "producer: SIGKILL",
            Self::ReclaimerKilled => "reclaimer and worker: SIGKILL",
            Self::Rolled => "all roles restarted, one by one",
            Self::RedisKilled => "redis: SIGKILL, back with its AOF",
            Self::RedisPaused => "redis: CLIENT PAUSE",
            Self::RedisFull => "redis: maxmemory reached",
            Self::RedisBusy => "redis: a busy script",
            Self::RepliesLost => "redis: replies lost",
            Self::BlackHole => "redis: connections black-holed",
            Self::Refusals => "gateway: 429",
            Self::Unavailable => "gateway: 503",
            Self::Resets => "gateway: connections reset",
            Self::Trickles => "gateway: answers trickle",
        }
    }

    /// What is counted as hit.
    pub(crate) fn hits(self) -> &'static str {
        match self {
            Self::WorkerKilled | Self::ReclaimerKilled => "calls cut off",
            Self::WorkerFrozen => "requests called for by another meanwhile",
            Self::WorkerStopped | Self::WorkerSkewed => "calls of it",
            Self::ProducerKilled | Self::RedisPaused | Self::RedisBusy | Self::BlackHole => {
                "client calls failed or over 1 s"
            }
            // One that is back within a moment fails none of them: the roles wait for it.
            Self::Rolled | Self::RedisKilled => "client calls under way",
            Self::RedisFull => "submits refused as full",
            Self::RepliesLost => "replies lost",
            Self::Refusals | Self::Unavailable | Self::Resets | Self::Trickles => "calls met so",
        }
    }
}
