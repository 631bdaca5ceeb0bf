//! Which server a binary is, and whether it is new enough.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::run::run;

const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// The two servers that speak our scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `redis-server`.
    Redis,
    /// `valkey-server`.
    Valkey,
}

impl Kind {
    /// The oldest version that can run the scripts.
    pub fn oldest(self) -> Version {
        match self {
            Self::Redis => Version(7, 0, 0),
            Self::Valkey => Version(7, 2, 0),
        }
    }

    /// The server of that name, as it and we write it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "Redis" => Some(Self::Redis),
            "Valkey" => Some(Self::Valkey),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Redis => "Redis",
            Self::Valkey => "Valkey",
        })
    }
}

/// A server's version: major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16, pub u16);

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(out, "{major}.{minor}.{patch}")
    }
}

/// Reads what a server prints for `--version`: `Valkey server v=9.1.2 sha=…`.
pub(crate) fn parse_banner(banner: &str) -> Option<(Kind, Version)> {
    let mut words = banner.split_whitespace();
    let kind = Kind::named(words.next()?)?;
    let version = words.find_map(|word| word.strip_prefix("v="))?;
    Some((kind, parse_version(version)?))
}

/// Reads `9.1.2`.
pub(crate) fn parse_version(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    let mut next = || numbers.next().flatten();
    Some(Version(next()?, next()?, next()?))
}

/// Asks a binary what it is; the error says in a few words why it is of no use.
pub(crate) fn probe(binary: &Path) -> Result<(Kind, Version), String> {
    let mut command = Command::new(binary);
    command.arg("--version");
    let banner = run(command, PROBE_LIMIT)?;
    let (kind, version) = parse_banner(&banner).ok_or("is no redis-server or valkey-server")?;
    if version < kind.oldest() {
        return Err(format!("is {kind} {version}, older than {}", kind.oldest()));
    }
    Ok((kind, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banners_of_both_servers_are_read() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=dd8c0c50a2b98325";
        let valkey =
            "Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=1536df31c0395150\n";
        assert_eq!(parse_banner(redis), Some((Kind::Redis, Version(7, 0, 15))));
        assert_eq!(parse_banner(valkey), Some((Kind::Valkey, Version(9, 1, 2))));
        for other in
            ["", "Redis", "Redis server v=7", "Redis server v=7.x.1", "memcached 1.6.18", "v=7.0.0"]
        {
            assert_eq!(parse_banner(other), None, "{other:?}");
        }
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(Version(7, 10, 0) > Version(7, 2, 9) && Version(10, 0, 0) > Version(9, 9, 9));
        assert_eq!(Version(7, 2, 4).to_string(), "7.2.4");
    }
}
