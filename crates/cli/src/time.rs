//! Times as people read them.

use std::time::Duration;

use serde_json::Number;

/// Unix milliseconds as a date and time in UTC.
pub(crate) fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Days since 1970 as a date of the Gregorian calendar, whose eras of 400 years are all alike. A year is
/// counted from March here, so that the leap day is its last.
fn date(days: u64) -> (u64, u64, u64) {
    let since_march_0000 = days + 719_468;
    let (era, day_of_era) = (since_march_0000 / 146_097, since_march_0000 % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// From one moment to another, in ms, as the two largest units that matter; with a sign if it is back in time.
pub(crate) fn span(from_ms: u64, to_ms: u64) -> String {
    let sign = if to_ms < from_ms { "-" } else { "" };
    let ms = to_ms.abs_diff(from_ms);
    let (seconds, tenths) = (ms / 1000, ms / 100 % 10);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < 60 => format!("{sign}{seconds}.{tenths}s"),
        () if minutes < 60 => format!("{sign}{minutes}m{:02}s", seconds % 60),
        () if hours < 24 => format!("{sign}{hours}h{:02}m", minutes % 60),
        () => format!("{sign}{days}d{:02}h", hours % 24),
    }
}

/// Milliseconds as the API tells times: seconds, whole ones without a point.
pub(crate) fn seconds(ms: u64) -> Option<Number> {
    if ms.is_multiple_of(1000) {
        Some((ms / 1000).into())
    } else {
        Number::from_f64(ms as f64 / 1000.0)
    }
}

/// Reads a duration of the command line: one whole number and one unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let rule = || "must be one whole number and one unit of ms, s, m, h, like 90s".to_owned();
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(rule)?;
    let (number, unit) = text.split_at(at);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(rule()),
    };
    let number: u64 = number.parse().map_err(|_| rule())?;
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (2_000_000_000, "2033-05-18T03:33:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds * 1000), text);
        }
    }

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (ms, text) in [
            (0, "0.0s"),
            (4_290, "4.2s"),
            (59_999, "59.9s"),
            (185_000, "3m05s"),
            (7_800_000, "2h10m"),
            (442_800_000, "5d03h"),
        ] {
            assert_eq!(span(1000, 1000 + ms), text);
        }
        assert_eq!(span(5000, 3700), "-1.3s");
    }

    #[test]
    fn seconds_are_whole_where_they_can_be() {
        assert_eq!(seconds(2000).unwrap().to_string(), "2");
        assert_eq!(seconds(2250).unwrap().to_string(), "2.25");
    }

    #[test]
    fn a_duration_is_one_number_and_one_unit() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "s", "90", "-1s", "1.5s", "1 s", "1d", "99999999999999999999s", "1sm"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
