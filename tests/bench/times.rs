//! Times as samples, and what is read from them.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Samples in microseconds, in the order in which they were taken.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Times(Vec<f64>);

/// Points of a distribution, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Points {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e6);
    }

    /// The samples themselves.
    pub(crate) fn samples(&self) -> Vec<f64> {
        self.0.clone()
    }

    /// The samples of several rounds in one.
    pub(crate) fn joined<'a>(rounds: impl IntoIterator<Item = &'a Self>) -> Self {
        Self(rounds.into_iter().flat_map(|round| round.0.iter().copied()).collect())
    }

    pub(crate) fn points(&self) -> Points {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        Points { p50: at(&sorted, 0.50), p99: at(&sorted, 0.99), p999: at(&sorted, 0.999) }
    }
}

/// The clock that all processes of this machine share.
pub(crate) fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock").into()
}

/// The smallest sample that a share of all does not exceed.
fn at(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil().max(1.0) as usize;
    *sorted.get(rank - 1).expect("a quantile of samples")
}

impl Points {
    /// Point by point.
    pub(crate) fn zip(self, other: Self, with: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            p50: with(self.p50, other.p50),
            p99: with(self.p99, other.p99),
            p999: with(self.p999, other.p999),
        }
    }
}
