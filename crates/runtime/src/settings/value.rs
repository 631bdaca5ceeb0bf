//! The types that a setting can have: how each is read, and how it is written.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::given::{Given, digits};

/// A type that a setting can have.
pub(super) trait Setting: Sized {
    /// What is told of a value that breaks a rule.
    const RULE: &'static str;
    /// Whether a value may be secret as long as nobody could read it.
    const HIDDEN: bool = false;

    /// Reads a value; nothing, if it breaks `RULE`.
    fn read(given: &Given) -> Option<Self>;

    /// The value as it would stand in the file, secrets hidden.
    fn write(&self) -> String;
}

/// A text in quotes, as TOML wants it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

const MILLIS_A_SECOND: u64 = 1_000;
const MILLIS_A_MINUTE: u64 = 60 * MILLIS_A_SECOND;
const MILLIS_AN_HOUR: u64 = 60 * MILLIS_A_MINUTE;
const MILLIS_A_DAY: u64 = 24 * MILLIS_AN_HOUR;

impl Setting for Duration {
    const RULE: &'static str =
        "must be one whole number and one unit of ms, s, m, h and d, without spaces, like 15s";

    fn read(given: &Given) -> Option<Self> {
        let text = given.text()?;
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let unit = match unit {
            "ms" => 1,
            "s" => MILLIS_A_SECOND,
            "m" => MILLIS_A_MINUTE,
            "h" => MILLIS_AN_HOUR,
            "d" => MILLIS_A_DAY,
            _ => return None,
        };
        Some(Self::from_millis(digits(number)?.checked_mul(unit)?))
    }

    fn write(&self) -> String {
        quoted(&in_units(*self))
    }
}

/// A duration as the settings spell it.
pub(super) fn in_units(duration: Duration) -> String {
    let millis = duration.as_millis();
    // A day or less is easier to read in hours.
    let days = u128::from(MILLIS_A_DAY);
    if millis > days && millis.is_multiple_of(days) {
        return format!("{}d", millis / days);
    }
    for (unit, name) in [(MILLIS_AN_HOUR, "h"), (MILLIS_A_MINUTE, "m"), (MILLIS_A_SECOND, "s")] {
        let unit = u128::from(unit);
        if millis >= unit && millis.is_multiple_of(unit) {
            return format!("{}{name}", millis / unit);
        }
    }
    format!("{millis}ms")
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Size(pub(super) u64);

impl Size {
    pub(super) const KIB: u64 = 1 << 10;
    pub(super) const MIB: u64 = 1 << 20;
    pub(super) const GIB: u64 = 1 << 30;

    /// The size as the settings spell it.
    pub(super) fn in_units(self) -> String {
        for (unit, name) in [(Self::GIB, "GiB"), (Self::MIB, "MiB"), (Self::KIB, "KiB")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return format!("{}{name}", self.0 / unit);
            }
        }
        format!("{}B", self.0)
    }
}

impl Setting for Size {
    const RULE: &'static str =
        "must be one whole number and one unit of B, KiB, MiB and GiB, without spaces, like 8MiB";

    fn read(given: &Given) -> Option<Self> {
        let text = given.text()?;
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let unit = match unit {
            "B" => 1,
            "KiB" => Self::KIB,
            "MiB" => Self::MIB,
            "GiB" => Self::GIB,
            _ => return None,
        };
        Some(Self(digits(number)?.checked_mul(unit)?))
    }

    fn write(&self) -> String {
        quoted(&self.in_units())
    }
}

impl Setting for u64 {
    const RULE: &'static str = "must be a whole number, without quotes";

    fn read(given: &Given) -> Option<Self> {
        given.whole()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for bool {
    const RULE: &'static str = "must be true or false, without quotes";

    fn read(given: &Given) -> Option<Self> {
        given.flag()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for SocketAddr {
    const RULE: &'static str = "must be an IP address and a port, like 127.0.0.1:8080";

    fn read(given: &Given) -> Option<Self> {
        given.text()?.parse().ok()
    }

    fn write(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Setting for PathBuf {
    const RULE: &'static str = "must be the path of a file";

    fn read(given: &Given) -> Option<Self> {
        let path = given.text()?;
        (!path.is_empty() && !path.contains('\0')).then(|| Self::from(path))
    }

    fn write(&self) -> String {
        quoted(&self.to_string_lossy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Setting>(text: &str) -> Option<T> {
        T::read(&Given::default(text))
    }

    #[test]
    fn a_duration_is_one_number_and_one_unit_and_works_as_written() {
        for (text, millis) in
            [("500ms", 500), ("15s", 15_000), ("15m", 900_000), ("24h", 86_400_000), ("0s", 0)]
        {
            assert_eq!(read(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(read("7d"), Some(Duration::from_secs(7 * 86_400)));
        for wrong in [
            "",
            "15",
            "s",
            "5m ",
            " 5m",
            "5 m",
            "1h30m",
            "-1s",
            "+1s",
            "1.5s",
            "5M",
            "5min",
            "1e3s",
            "١s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(read::<Duration>(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_size_is_one_number_and_one_binary_unit() {
        assert_eq!(read("512B"), Some(Size(512)));
        assert_eq!(read("8MiB"), Some(Size(8 << 20)));
        for wrong in ["8", "8MB", "8Mib", "8 MiB", "8M", "-8MiB", "18446744073709551615GiB"] {
            assert_eq!(read::<Size>(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn durations_and_sizes_are_written_as_they_are_read() {
        for text in ["500ms", "15s", "90s", "15m", "24h", "7d", "25h", "0ms"] {
            assert_eq!(in_units(read(text).unwrap()), text);
        }
        for text in ["1B", "1000B", "32KiB", "8MiB", "1GiB", "1025MiB"] {
            assert_eq!(read::<Size>(text).unwrap().in_units(), text);
        }
    }

    #[test]
    fn an_address_needs_a_port_and_no_name() {
        assert!(read::<SocketAddr>("[::1]:8080").is_some());
        for wrong in ["127.0.0.1", "localhost:8080", ":8080", "127.0.0.1:99999"] {
            assert_eq!(read::<SocketAddr>(wrong), None, "{wrong}");
        }
    }
}
