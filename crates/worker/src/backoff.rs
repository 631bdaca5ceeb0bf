//! How long to wait before the next attempt. Pure: the random source is passed in.

use std::time::{Duration, SystemTime};

use rand::{Rng, RngExt};

/// The first step; each retry doubles it.
const FIRST: Duration = Duration::from_secs(1);
/// The longest step.
const LONGEST: Duration = Duration::from_secs(60);

/// The wait before the `retry`-th retry (the first is 1).
///
/// Drawn from [d/2, d) with `d = min(60 s, 1 s · 2^(retry-1))`. What the gateway asked for raises
/// it to [r, 1.25 r], where r is at most half of the time `left`, so that an absurd wish still
/// leaves room for another attempt.
pub(crate) fn delay(
    retry: u32,
    asked: Option<Duration>,
    left: Duration,
    rng: &mut impl Rng,
) -> Duration {
    let doublings = retry.saturating_sub(1).min(16);
    let step = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let own = between(step / 2, step, rng);
    let Some(asked) = asked else { return own };
    let asked = asked.min(left / 2);
    own.max(between(asked, asked + asked / 4, rng))
}

/// A duration from [`from`, `to`), to the nanosecond; `from` itself where there is nothing between.
pub(crate) fn between(from: Duration, to: Duration, rng: &mut impl Rng) -> Duration {
    let width = to.saturating_sub(from).as_nanos();
    let width = u64::try_from(width).unwrap_or(u64::MAX);
    if width == 0 {
        return from;
    }
    from + Duration::from_nanos(rng.random_range(0..width))
}

/// What the `Retry-After` fields of an answer ask for; the longest where there are several.
///
/// Valid are whole seconds and HTTP dates. Several numbers in one field are what a proxy makes of
/// several fields, so they count as such. Everything else (words, fractions, signs, digits that
/// are not ASCII) is ignored. `None` also for zero and for dates not after `now`: they ask for
/// nothing that the usual back-off does not give.
pub(crate) fn retry_after<'a>(
    fields: impl Iterator<Item = &'a [u8]>,
    now: SystemTime,
) -> Option<Duration> {
    fields.filter_map(|field| asked(field, now)).max().filter(|wait| !wait.is_zero())
}

/// What one field asks for.
fn asked(field: &[u8], now: SystemTime) -> Option<Duration> {
    let text = std::str::from_utf8(field).ok()?.trim_matches([' ', '\t']);
    if let Ok(date) = httpdate::parse_http_date(text) {
        return date.duration_since(now).ok();
    }
    // One part that is no number spoils the field.
    let mut longest = Duration::ZERO;
    for part in text.split(',') {
        longest = longest.max(seconds(part.trim_matches([' ', '\t']))?);
    }
    Some(longest)
}

/// Whole seconds in ASCII digits; a number too large for any clock counts as the largest.
fn seconds(text: &str) -> Option<Duration> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().map_or(Duration::MAX, Duration::from_secs))
}

/// The pauses between repeats of a call that Redis has not answered: short at first, since a lost
/// connection is soon back, and then at most one every second or two.
#[derive(Debug, Default)]
pub(crate) struct Pauses(u32);

impl Pauses {
    /// The next one.
    pub(crate) fn next(&mut self, rng: &mut impl Rng) -> Duration {
        let step = Duration::from_millis(50 << self.0.min(5)).min(Duration::from_secs(2));
        self.0 = self.0.saturating_add(1);
        between(step / 2, step, rng)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// 29 Nov 2034, 09:59:56 GMT: four seconds before the date that the given lines name.
    fn now() -> SystemTime {
        httpdate::parse_http_date("Wed, 29 Nov 2034 09:59:56 GMT").unwrap()
    }

    fn read(fields: &[&str]) -> Option<Duration> {
        retry_after(fields.iter().map(|field| field.as_bytes()), now())
    }

    #[test]
    fn steps_double_from_one_second_to_a_minute_and_half_of_each_is_drawn() {
        let mut rng = StdRng::seed_from_u64(1);
        for (retry, step) in
            [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (4_000_000_000, 60)]
        {
            let draws: Vec<_> = (0..500).map(|_| delay(retry, None, HOUR, &mut rng)).collect();
            assert!(draws.iter().all(|wait| (secs(step) / 2..secs(step)).contains(wait)));
            let (least, most) = (draws.iter().min().unwrap(), draws.iter().max().unwrap());
            assert!(*most - *least > secs(step) / 3, "the draws are spread");
        }
    }

    #[test]
    fn a_wish_of_the_gateway_is_met_and_overstayed_by_a_quarter_at_most() {
        let mut rng = StdRng::seed_from_u64(2);
        for _ in 0..500 {
            let wait = delay(1, Some(secs(8)), HOUR, &mut rng);
            assert!((secs(8)..=secs(10)).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn a_wish_never_shortens_the_usual_wait() {
        let mut rng = StdRng::seed_from_u64(3);
        for _ in 0..500 {
            assert!(delay(7, Some(secs(1)), HOUR, &mut rng) >= secs(30));
        }
    }

    #[test]
    fn an_absurd_wish_leaves_half_of_the_time() {
        let mut rng = StdRng::seed_from_u64(4);
        for _ in 0..500 {
            let wait = delay(1, Some(Duration::MAX), secs(100), &mut rng);
            assert!((secs(50)..=secs(63)).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn no_time_left_is_no_panic() {
        let mut rng = StdRng::seed_from_u64(5);
        assert!(delay(1, Some(secs(9)), Duration::ZERO, &mut rng) < secs(1));
        assert!(delay(0, None, Duration::ZERO, &mut rng) < secs(1));
    }

    #[test]
    fn a_silent_redis_is_asked_twice_a_second_at_most_after_the_first_moments() {
        let mut rng = StdRng::seed_from_u64(6);
        let mut pauses = Pauses::default();
        let first: Duration = (0..5).map(|_| pauses.next(&mut rng)).sum();
        assert!(first < secs(2), "a blip is over soon: {first:?}");
        assert!((0..100).all(|_| pauses.next(&mut rng) >= Duration::from_millis(500)));
    }

    /// Each line is one shape that gateways were seen to send.
    #[test]
    fn every_shape_of_retry_after_is_read_as_documented() {
        let shapes: [(&[&str], Option<Duration>); 17] = [
            (&["3"], Some(secs(3))),
            (&["0"], None),
            (&["  3   "], Some(secs(3))),
            (&["Wed, 29 Nov 2034 10:00:00 GMT"], Some(secs(4))),
            (&["Wednesday, 29-Nov-34 10:00:00 GMT"], Some(secs(4))),
            (&["Thu, 01 Jan 1970 00:00:00 GMT"], None),
            (&["-5"], None),
            (&["2.5"], None),
            (&["soon"], None),
            (&[""], None),
            (&["99999999999999999999"], Some(Duration::MAX)),
            (&["1, 7"], Some(secs(7))),
            (&["1, soon"], None),
            (&["3", "30"], Some(secs(30))),
            (&["soon", "2"], Some(secs(2))),
            (&["٣"], None),
            (&["+3"], None),
        ];
        for (fields, expected) in shapes {
            assert_eq!(read(fields), expected, "{fields:?}");
        }
        assert_eq!(retry_after([b"\xff3".as_slice()].into_iter(), now()), None, "not text");
        assert_eq!(read(&[]), None);
    }
}
