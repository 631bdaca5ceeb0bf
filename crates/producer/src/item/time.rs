//! Times as a caller writes them: Unix seconds, or a number and a unit.

use std::time::Duration;

use super::{HORIZON, TimeFault};

/// No time that is meant in seconds is as large as this; one in milliseconds is.
const MILLIS_FROM: u64 = 100_000_000_000;

/// Reads Unix seconds from the raw text of a JSON value, and gives Unix milliseconds.
///
/// A time in the past is let through: whether it may be depends on what is kept under the id.
pub(super) fn unix_seconds(raw: &str, now_ms: u64) -> Result<u64, TimeFault> {
    if !raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(TimeFault::NotANumber);
    }
    // Also a whole number in another dress, such as 1e3 or 2000000000.0: one form, one meaning.
    if raw.contains(['.', 'e', 'E']) {
        return Err(TimeFault::NotWhole);
    }
    if raw.starts_with('-') {
        return Err(TimeFault::Negative);
    }
    // JSON numbers of digits alone fail to parse only when they are too large.
    let seconds: u64 = raw.parse().map_err(|_| TimeFault::LooksLikeMillis)?;
    // What no request can ever have been accepted with needs no look at what is kept.
    if seconds == 0 {
        return Err(TimeFault::Past);
    }
    if seconds > MILLIS_FROM {
        return Err(TimeFault::LooksLikeMillis);
    }
    if seconds > now_ms / 1000 + HORIZON.as_secs() {
        return Err(TimeFault::TooFar);
    }
    Ok(seconds * 1000)
}

/// Reads a duration such as `"90s"` from the raw text of a JSON value.
pub(super) fn timeout(raw: &str) -> Result<Duration, TimeFault> {
    let text = raw
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .ok_or(TimeFault::NotATimeout)?;
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or(TimeFault::NotATimeout)?;
    let (number, unit) = text.split_at(unit_at);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(TimeFault::NotATimeout),
    };
    if number.is_empty() {
        return Err(TimeFault::NotATimeout);
    }
    let number: u64 = number.parse().map_err(|_| TimeFault::OutOfRange)?;
    let timeout = number.checked_mul(unit_ms).map(Duration::from_millis);
    timeout
        .filter(|timeout| (Duration::from_millis(1)..=HORIZON).contains(timeout))
        .ok_or(TimeFault::OutOfRange)
}
