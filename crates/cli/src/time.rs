//! Times as people read them.

use std::time::Duration;

pub(crate) use holdfast_core::operate::utc;

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
    fn a_duration_is_one_number_and_one_unit() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "s", "90", "-1s", "1.5s", "1 s", "1d", "99999999999999999999s", "1sm"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
