//! `redis.url`: every form that the client takes, its passwords hidden wherever it is shown.

use std::fmt;

use url::Url;

use super::given::Given;
use super::value::{Setting, quoted};

const SCHEMES: &[&str] = &["redis", "rediss", "valkey", "valkeys"];

/// A further node of a cluster, or a further sentinel.
const NODE: &str = "node";

/// What may be told behind the address of a sentinel.
const OF_SENTINEL: &[&str] = &[NODE, "sentinelServiceName", "sentinelUsername", "sentinelPassword"];

/// What is set up behind the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// Sentinels that know the server.
    Sentinel,
    /// A cluster.
    Cluster,
    /// One server behind a Unix socket.
    Unix,
}

/// Where Redis is. Shown, it hides its passwords and keeps host and port.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    text: String,
    shown: String,
    /// Single server, Sentinel, Cluster or Unix socket.
    pub topology: Topology,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Whether a user name stands in it.
    pub has_username: bool,
    /// Whether a password stands in it.
    pub has_password: bool,
}

impl RedisUrl {
    /// The whole address, passwords and all, for the client.
    pub fn expose(&self) -> &str {
        &self.text
    }

    fn parse(text: &str) -> Option<Self> {
        if text.trim() != text {
            return None;
        }
        let url = Url::parse(text).ok()?;
        let (base, topology) = match url.scheme().split_once(['-', '+']) {
            None => (url.scheme(), Topology::Single),
            Some((base, "sentinel")) => (base, Topology::Sentinel),
            Some((base, "cluster")) => (base, Topology::Cluster),
            Some((base, "unix")) => (base, Topology::Unix),
            Some(_) => return None,
        };
        let tls = matches!(base, "rediss" | "valkeys");
        let known = SCHEMES.contains(&base) && url.fragment().is_none();
        if !known || !reaches_something(&url, topology, tls) {
            return None;
        }
        Some(Self {
            text: text.to_owned(),
            shown: without_passwords(&url)?,
            topology,
            tls,
            has_username: !url.username().is_empty(),
            has_password: url.password().is_some_and(|password| !password.is_empty()),
        })
    }
}

/// Whether the address has what its form needs; what the client would take for nothing is refused.
fn reaches_something(url: &Url, topology: Topology, tls: bool) -> bool {
    let has_host = url.host_str().is_some_and(|host| !host.is_empty());
    let names_master =
        url.query_pairs().any(|(name, value)| name == "sentinelServiceName" && !value.is_empty());
    // The client splits each at its only colon.
    let nodes_have_ports = url.query_pairs().filter(|(name, _)| name == NODE).all(|(_, node)| {
        node.split_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    });
    // It leaves out what it does not know: a node or a password that is written otherwise.
    let only_knows = |names: &[&str]| url.query_pairs().all(|(name, _)| names.contains(&&*name));
    // It takes the brackets for a part of the name that the certificate is to have.
    let has_no_name = tls && url.host_str().is_some_and(|host| host.starts_with('['));
    let database_is_a_number =
        matches!(url.path(), "" | "/") || url.path()[1..].parse::<u8>().is_ok();
    let bare = url.query().is_none();
    if has_no_name {
        return false;
    }
    match topology {
        Topology::Single => has_host && bare && database_is_a_number,
        Topology::Sentinel => {
            has_host
                && names_master
                && nodes_have_ports
                && only_knows(OF_SENTINEL)
                && database_is_a_number
        }
        Topology::Cluster => {
            has_host
                && url.port().is_some()
                && nodes_have_ports
                && only_knows(&[NODE])
                && matches!(url.path(), "" | "/")
        }
        Topology::Unix => !tls && bare && url.path().len() > 1,
    }
}

fn without_passwords(url: &Url) -> Option<String> {
    let mut shown = url.clone();
    if shown.password().is_some() {
        shown.set_password(Some("***")).ok()?;
    }
    let pairs: Vec<String> = url
        .query_pairs()
        .map(|(name, value)| {
            let secret = name.to_lowercase().contains("password");
            format!("{name}={}", if secret { "***" } else { &value })
        })
        .collect();
    if url.query().is_some() {
        shown.set_query(Some(&pairs.join("&")));
    }
    Some(shown.to_string())
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Setting for RedisUrl {
    const RULE: &'static str = "must be an address like redis://127.0.0.1:6379, \
        redis-sentinel://host:26379?sentinelServiceName=name, redis-cluster://host:6379 or \
        redis+unix:///path (rediss for TLS); behind ? only node=host:port, and of Sentinel \
        sentinelServiceName, sentinelUsername and sentinelPassword; no IPv6 address as node or with TLS";
    // What could not be parsed may hold a password anywhere.
    const HIDDEN: bool = true;

    fn read(given: &Given) -> Option<Self> {
        Self::parse(given.text()?)
    }

    fn write(&self) -> String {
        quoted(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_client_is_taken() {
        for (text, topology, tls) in [
            ("redis://127.0.0.1:6379", Topology::Single, false),
            ("rediss://user:pw@redis.example/3", Topology::Single, true),
            ("valkeys://h:1", Topology::Single, true),
            (
                "redis-sentinel://h:26379/1?node=i:26379&sentinelServiceName=m",
                Topology::Sentinel,
                false,
            ),
            (
                "redis-sentinel://h:1?sentinelServiceName=m&sentinelUsername=u&sentinelPassword=p",
                Topology::Sentinel,
                false,
            ),
            ("rediss-cluster://h:6379?node=i:6379", Topology::Cluster, true),
            ("redis://[::1]:6379", Topology::Single, false),
            ("rediss://127.0.0.1:6379", Topology::Single, true),
            ("redis+unix:///run/redis.sock", Topology::Unix, false),
        ] {
            let url = RedisUrl::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((url.topology, url.tls, url.expose()), (topology, tls, text));
        }
    }

    #[test]
    fn what_the_client_could_not_use_is_refused() {
        for text in [
            "",
            "127.0.0.1:6379",
            "http://h:6379",
            "redis://",
            "redis://h:99999",
            "redis://h:6379/x",
            "redis://h:6379 ",
            "redis://h:6379?timeout=1",
            "redis-cluster://h",
            "redis-cluster://h:1?node=i",
            "redis-cluster://h:1?node=[::1]:2",
            "redis-cluster://h:1?nodes=i:2",
            "redis-cluster://h:1?sentinelPassword=x",
            "redis-sentinel://h:26379",
            "redis-sentinel://h:26379?sentinelServiceName=m&node=[::1]:2",
            "redis-sentinel://h:26379?sentinelServiceName=m&sentinelpassword=x",
            "redis-sentinel://h:26379?sentinelServiceName=m&db=1",
            "rediss://[::1]:6379",
            "rediss-cluster://[::1]:6379",
            "valkeys-sentinel://[::1]:26379?sentinelServiceName=m",
            "redis-sentry://h:1",
            "redis+unix://",
        ] {
            assert!(RedisUrl::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn passwords_are_hidden_and_host_and_port_are_not() {
        let text =
            "redis-sentinel://ad:S3CRET@h:26379?sentinelServiceName=m&sentinelPassword=S3CRET";
        let url = RedisUrl::parse(text).unwrap();
        for shown in [url.to_string(), format!("{url:?}"), url.write()] {
            assert!(shown.contains("ad:***@h:26379"), "{shown}");
            assert!(shown.contains("sentinelPassword=***"), "{shown}");
            assert!(!shown.contains("S3CRET"), "{shown}");
        }
    }
}
