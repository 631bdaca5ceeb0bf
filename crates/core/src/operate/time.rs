//! Times as operators read them, and as JSON tells them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A moment or a length of time in ms. JSON tells it in seconds, whole ones without a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u64);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1000) {
            serializer.serialize_u64(self.0 / 1000)
        } else {
            serializer.serialize_f64(self.0 as f64 / 1000.0)
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Seconds {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if seconds < 0.0 {
            return Err(D::Error::custom("a time is not negative"));
        }
        // A cast saturates, and what is no number is none.
        Ok(Self((seconds * 1000.0).round() as u64))
    }
}

/// Unix milliseconds as a date and time in UTC.
pub fn utc(unix_ms: u64) -> String {
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
pub fn span(from_ms: u64, to_ms: u64) -> String {
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
    fn seconds_are_whole_where_they_can_be_and_come_back_as_they_were() {
        for (ms, text) in [(2_000, "2"), (2_250, "2.25"), (1_790_000_000_123, "1790000000.123")] {
            assert_eq!(serde_json::to_string(&Seconds(ms)).unwrap(), text);
            assert_eq!(serde_json::from_str::<Seconds>(text).unwrap(), Seconds(ms));
        }
        assert!(serde_json::from_str::<Seconds>("-0.001").is_err());
    }
}
