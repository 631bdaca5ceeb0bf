//! Noticing that the Redis clock leapt ahead: nothing may be ended or forgotten by such a clock at once.

use std::time::Duration;

use tokio::time::Instant;

/// How long what ends by the clock rests after a leap.
const REST: Duration = Duration::from_secs(600);

/// Compares the Redis clock with the monotonic one, from one sight of it to the next.
#[derive(Debug, Default)]
pub struct ClockWatch {
    /// What it showed, and the earliest moment at which it can have shown it.
    last: Option<(u64, Instant)>,
    resting_until: Option<Instant>,
}

impl ClockWatch {
    /// Takes a sight: `redis_ms` was read between `asked` and `seen`, which lie far apart where this process was frozen
    /// in between. Returns whether the Redis clock ran more than `lease` ahead since the last sight, wherever in between
    /// the two were read.
    pub fn sight(&mut self, redis_ms: u64, asked: Instant, seen: Instant, lease: Duration) -> bool {
        let leapt = self.last.is_some_and(|(before_ms, before)| {
            let by_redis = Duration::from_millis(redis_ms.saturating_sub(before_ms));
            by_redis > seen.saturating_duration_since(before) + lease
        });
        self.last = Some((redis_ms, asked));
        if leapt {
            self.resting_until = Some(seen + REST);
        }
        leapt
    }

    /// The latest time, in ms, that the Redis clock can show soon after `now` without having leapt. 0: it is not trusted,
    /// or was never seen.
    pub fn trusted_until(&self, now: Instant, lease: Duration) -> u64 {
        let bound = |(last_ms, last): (u64, Instant)| {
            let since = now.saturating_duration_since(last) + lease;
            last_ms.saturating_add(since.as_millis().try_into().unwrap_or(u64::MAX))
        };
        self.last.filter(|_| self.is_trusted(now)).map_or(0, bound)
    }

    /// Whether things may be ended by the clock.
    pub fn is_trusted(&self, now: Instant) -> bool {
        self.resting_until.is_none_or(|until| now >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_leap_of_more_than_a_lease_rests_for_ten_minutes() {
        let (mut watch, start, lease) =
            (ClockWatch::default(), Instant::now(), Duration::from_secs(15));
        assert!(!watch.sight(1_000_000, start, start, lease));
        assert!(
            !watch.sight(1_010_000, start + SECOND, start + SECOND, lease),
            "9 s ahead is no leap"
        );
        assert!(watch.sight(4_610_000, start + 2 * SECOND, start + 2 * SECOND, lease));
        assert!(!watch.is_trusted(start + Duration::from_secs(601)));
        assert!(watch.is_trusted(start + Duration::from_secs(602)));
    }

    #[test]
    fn a_clock_is_trusted_a_lease_beyond_what_has_passed_since_it_was_seen() {
        let (mut watch, start, lease) =
            (ClockWatch::default(), Instant::now(), Duration::from_secs(15));
        assert_eq!(watch.trusted_until(start, lease), 0, "never seen");
        watch.sight(1_000_000, start, start, lease);
        assert_eq!(watch.trusted_until(start + Duration::from_secs(2), lease), 1_017_000);
        watch.sight(9_000_000, start + 3 * SECOND, start + 3 * SECOND, lease);
        assert_eq!(watch.trusted_until(start + Duration::from_secs(4), lease), 0, "it leapt");
    }

    #[test]
    fn an_outage_is_no_leap() {
        let (mut watch, start, lease) =
            (ClockWatch::default(), Instant::now(), Duration::from_secs(15));
        watch.sight(1_000_000, start, start, lease);
        assert!(!watch.sight(1_300_000, start + 300 * SECOND, start + 300 * SECOND, lease));
    }

    #[test]
    fn to_be_frozen_between_question_and_answer_is_no_leap() {
        let (mut watch, start, lease) = (ClockWatch::default(), Instant::now(), 15 * SECOND);
        // Answered at once, and read a minute later.
        watch.sight(1_000_000, start, start + 60 * SECOND, lease);
        assert_eq!(watch.trusted_until(start + 60 * SECOND, lease), 1_075_000);
        let again = start + 60 * SECOND;
        assert!(!watch.sight(1_060_001, again, again, lease));
        assert!(watch.sight(1_076_002, again, again + SECOND / 2, lease), "this one is");
    }
}
