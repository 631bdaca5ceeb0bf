//! Liveness as safety: from a given state, faults off, a fixed fair schedule ends everything within so many rounds.
//!
//! Nobody who was there before helps: its old workers are gone, or they hang and renew what they hold for as long as
//! they are let. A round is a reclaim, a promote, the claim of a new worker, the settling of what it got, and half a
//! lease of time.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher as _},
    sync::Mutex,
};

use holdfast_model::{
    call::{Call, Claim},
    state::{Fence, Ms, Session, State, Word},
};

use crate::{
    order::plain,
    step::{leases, settle},
    world::{LEASE, NOW, UNIT},
};

/// A worker of the schedule; a new one each round.
const FRESH: Session = Session(250);
/// More rounds than anything may take.
const MOST: u8 = 100;
/// How many steps a round has.
pub(crate) const STEPS: usize = 5;

/// How the schedule goes, and how many rounds it took from each state that was met.
pub(crate) struct Schedule {
    pub(crate) reclaims: bool,
    life: Ms,
    met: [Mutex<HashMap<u64, u8>>; 2],
}

impl Schedule {
    pub(crate) fn new(reclaims: bool, life: Ms) -> Self {
        Self { reclaims, life, met: Default::default() }
    }

    /// The most rounds that any state took.
    pub(crate) fn longest(&self) -> u8 {
        let longest = |met: &Mutex<HashMap<u64, u8>>| {
            met.lock().ok().and_then(|met| met.values().max().copied()).unwrap_or(0)
        };
        self.met.iter().map(longest).max().unwrap_or(0)
    }

    /// Whether everything ends, with the old workers gone, and with them hanging.
    pub(crate) fn ends(&self, shard: &State) -> bool {
        [false, true].into_iter().all(|hung| self.ends_with(shard.clone(), hung))
    }

    fn ends_with(&self, mut shard: State, hung: bool) -> bool {
        let mut way = Vec::new();
        let rest = loop {
            if shard.live() == 0 {
                break 0;
            }
            let key = self.key(&mut shard);
            let known =
                self.met[usize::from(hung)].lock().ok().and_then(|met| met.get(&key).copied());
            if let Some(rounds) = known {
                break rounds;
            }
            if way.len() > MOST.into() {
                return false;
            }
            way.push(key);
            self.round(&mut shard, hung);
        };
        if let Ok(mut met) = self.met[usize::from(hung)].lock() {
            met.extend(way.into_iter().rev().zip(rest + 1..));
        }
        true
    }

    /// What distinguishes a shard to the schedule.
    fn key(&self, shard: &mut State) -> u64 {
        shard.sessions.clear();
        plain(shard, self.life, NOW, true);
        let mut hasher = DefaultHasher::new();
        shard.hash(&mut hasher);
        hasher.finish()
    }

    fn round(&self, shard: &mut State, hung: bool) {
        if hung {
            let leases = shard.leases().into_iter().map(|(_, fence, handle)| (fence, handle));
            shard.step(&Call::Renew { lease: LEASE, leases: leases.collect() }, NOW);
        }
        if self.reclaims {
            shard.step(&Call::Reclaim { limit: 256, named: Vec::new() }, NOW);
        }
        shard.step(&Call::Promote { limit: 256, named: Vec::new() }, NOW);
        let fence = Fence { session: FRESH, call: 1 };
        let claim = Claim {
            fence,
            free: 1,
            lease: LEASE,
            budget: 1_000_000,
            may_suspect: true,
            trusted_until: NOW,
            along: 0,
        };
        let reply = shard.step(&Call::Claim(claim), NOW);
        let rows = leases(&reply).map(|(handle, ..)| settle(fence, handle, Word::Ack));
        shard.step(&Call::Settle(rows.collect()), NOW);
        shard.sessions.clear();
        shard.pass(UNIT.cast_signed());
    }
}
