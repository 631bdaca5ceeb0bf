//! A key that holds another type than it should: a script is stopped by it before its first write, or does not need it.

use holdfast_core::keys::ShardKeys;
use holdfast_model::{
    call::{Call, Claim},
    shard::{Content, Shard},
    state::State,
};

/// Such a key, and what may differ because of it.
pub(super) struct Mistyped {
    key: Vec<u8>,
    bell: Vec<u8>,
    is_bell: bool,
    /// Whether a script only asks if there is something, which there is: then it may ring for nothing.
    is_line: bool,
    is_request: bool,
}

impl Mistyped {
    pub(super) fn new(key: Vec<u8>, keys: &ShardKeys) -> Self {
        let is = |name: &str| key == name.as_bytes();
        Self {
            is_bell: is(&keys.bell),
            is_line: is(&keys.pending) || is(&keys.suspects),
            is_request: is(&keys.request),
            bell: keys.bell.clone().into_bytes(),
            key,
        }
    }

    /// The same call, but for what a claim brings along where that can't be read.
    pub(super) fn call(&self, call: &Call) -> Call {
        match call {
            Call::Claim(claim) if self.is_request => {
                Call::Claim(Claim { along: 0, ..claim.clone() })
            }
            call => call.clone(),
        }
    }

    /// What the script finds. A bell that is no list counts as full.
    pub(super) fn found(&self, state: &State) -> State {
        let mut state = state.clone();
        if self.is_bell {
            state.bell = 64;
        }
        state
    }

    /// What is left in the model, where nothing is mistyped.
    pub(super) fn left(&self, before: &State, mut after: State) -> State {
        if self.is_bell {
            after.bell = before.bell;
        }
        after
    }

    /// What is compared: all but this key.
    pub(super) fn compared(&self, mut shard: Shard) -> Shard {
        shard.0.remove(&self.key);
        if self.is_line {
            shard.0.remove(&self.bell);
        }
        shard
    }

    /// Whether nothing was to be written there, and nothing was.
    pub(super) fn is_untouched(&self, before: &Shard, model: &Shard, real: &Shard) -> bool {
        let kept = matches!(real.0.get(&self.key), Some(Content::Strange(_)));
        self.is_bell || kept && before.0.get(&self.key) == model.0.get(&self.key)
    }
}
