//! Noticing that the Redis clock leapt ahead: nothing may be ended or forgotten by such a clock at once.

use std::time::Duration;

use tokio::time::Instant;

/// How long what ends by the clock rests after a leap.
const REST: Duration = Duration::from_secs(600);

/// Compares the Redis clock with the monotonic one, from one sight of it to the next.
#[derive(Debug, Default)]
pub struct ClockWatch {
    /// The last sight of it.
    last: Option<Sight>,
    resting_until: Option<Instant>,
}

/// What the clock showed, and when it can have shown that.
#[derive(Clone, Copy, Debug)]
struct Sight {
    ms: u64,
    /// Not before.
    asked: Instant,
    /// Not after.
    seen: Instant,
}

impl ClockWatch {
    /// Takes a sight: `redis_ms` was read between `asked` and `seen`, which lie far apart where this process was frozen
    /// in between. Returns whether the Redis clock ran more than `lease` ahead since the last sight, wherever in between
    /// the two were read.
    pub fn sight(&mut self, redis_ms: u64, asked: Instant, seen: Instant, lease: Duration) -> bool {
        let leapt = self.last.is_some_and(|last| {
            let by_redis = Duration::from_millis(redis_ms.saturating_sub(last.ms));
            by_redis > seen.saturating_duration_since(last.asked) + lease
        });
        self.last = Some(Sight { ms: redis_ms, asked, seen });
        if leapt {
            self.resting_until = Some(seen + REST);
        }
        leapt
    }

    /// The latest moment at which the clock can have shown `redis_ms`, which was read between `asked` and `seen`: to be asked
    /// before that becomes a sight. An answer that was long on its way is older than it looks, and the sight before says
    /// by how much at least.
    pub fn shown(&self, redis_ms: u64, asked: Instant, seen: Instant) -> Instant {
        let by_last = self.last.and_then(|last| {
            // Both are whole milliseconds, and so up to one too few.
            let since = redis_ms.checked_sub(last.ms)?.saturating_add(1);
            last.seen.checked_add(Duration::from_millis(since))
        });
        by_last.map_or(seen, |by| by.min(seen).max(asked))
    }

    /// The latest time, in ms, that the Redis clock can show soon after `now` without having leapt. 0: it is not trusted,
    /// or was never seen.
    pub fn trusted_until(&self, now: Instant, lease: Duration) -> u64 {
        let bound = |last: Sight| {
            let since = now.saturating_duration_since(last.asked) + lease;
            last.ms.saturating_add(since.as_millis().try_into().unwrap_or(u64::MAX))
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
    fn an_answer_that_is_long_on_its_way_is_as_old_as_the_clock_in_it_says() {
        let (mut watch, start, lease) = (ClockWatch::default(), Instant::now(), 15 * SECOND);
        let ms = Duration::from_millis;
        assert_eq!(
            watch.shown(1_000_000, start, start + SECOND),
            start + SECOND,
            "never seen before"
        );
        watch.sight(1_000_000, start, start, lease);
        let (asked, seen) = (start + 10 * SECOND, start + 20 * SECOND);
        assert_eq!(watch.shown(1_012_000, asked, seen), start + ms(12_001));
        assert_eq!(watch.shown(1_030_000, asked, seen), seen, "it leapt ahead, or runs fast");
        assert_eq!(watch.shown(1_005_000, asked, seen), asked, "it was set back a little");
        assert_eq!(watch.shown(900_000, asked, seen), seen, "it was set back by more than that");
        assert_eq!(watch.shown(u64::MAX, asked, seen), seen);
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
