//! `[producer]`: the HTTP API.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::section::{Section, Shown};
use super::value::Size;

/// `[producer]`, checked.
#[derive(Clone, Debug)]
pub struct ProducerSettings {
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where health and metrics are.
    pub ops_listen: SocketAddr,
    /// Where operators' calls listen.
    pub operator_listen: SocketAddr,
    /// The callers' keys, hashed.
    pub keys_file: Option<PathBuf>,
    /// Whether callers without a key are served on an address that others reach.
    pub allow_anonymous: bool,
    /// The certificate of the API.
    pub tls_cert_file: Option<PathBuf>,
    /// Its key.
    pub tls_key_file: Option<PathBuf>,
    /// The longest that a call may wait for an end.
    pub wait_max: Duration,
    /// What a caller may occupy.
    pub limits: HttpLimits,
}

/// What the callers of an HTTP listener may occupy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// How many connections are open at once.
    pub max_connections: usize,
    /// How many headers a request may have.
    pub max_headers: usize,
    /// How long the head of a request may be, in bytes.
    pub max_head: u64,
    /// How long a connection may go without getting on: silent, between two requests, with a head
    /// that does not end, or with an answer that nobody reads.
    pub idle_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
}

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn read(mut section: Section<'_>) -> (Option<ProducerSettings>, Shown) {
    let s = &mut section;
    let listen: Option<SocketAddr> = s.field("listen", "127.0.0.1:8080");
    let ops_listen: Option<SocketAddr> = s.field("ops_listen", "127.0.0.1:9091");
    let operator_listen: Option<SocketAddr> = s.field("operator_listen", "127.0.0.1:8081");
    let keys_file: Option<Option<PathBuf>> = s.optional("keys_file");
    let allow_anonymous: Option<bool> = s.field("allow_anonymous", "false");
    let tls_cert_file: Option<Option<PathBuf>> = s.optional("tls_cert_file");
    let tls_key_file: Option<Option<PathBuf>> = s.optional("tls_key_file");
    let wait_max = s.within("wait_max", "300s", SECOND..=300 * SECOND);
    let limits = limits(s);

    if let (Some(listen), Some(keys), Some(anonymous)) = (listen, &keys_file, allow_anonymous) {
        let closed = listen.ip().is_loopback() || keys.is_some() || anonymous;
        section.check(closed, "listen", OPEN);
    }
    if let (Some(keys), Some(anonymous)) = (&keys_file, allow_anonymous) {
        let either = keys.is_none() || !anonymous;
        section.check(
            either,
            "allow_anonymous",
            "stands beside producer.keys_file: with keys every caller needs one",
        );
    }
    if let (Some(operators), Some(keys)) = (operator_listen, &keys_file) {
        let closed = operators.ip().is_loopback() || keys.is_some();
        section.check(closed, "operator_listen", OPERATORS_OPEN);
    }
    check_pair(&mut section, &tls_cert_file, &tls_key_file);
    check_distinct(
        &mut section,
        listen,
        [("ops_listen", ops_listen), ("operator_listen", operator_listen)],
    );
    let shown = section.finish();
    let checked = || {
        Some(ProducerSettings {
            listen: listen?,
            ops_listen: ops_listen?,
            operator_listen: operator_listen?,
            keys_file: keys_file?,
            allow_anonymous: allow_anonymous?,
            tls_cert_file: tls_cert_file?,
            tls_key_file: tls_key_file?,
            wait_max: wait_max?,
            limits: limits?,
        })
    };
    (checked(), shown)
}

/// A certificate is of no use without its key, and the other way round.
fn check_pair(
    section: &mut Section<'_>,
    certificate: &Option<Option<PathBuf>>,
    key: &Option<Option<PathBuf>>,
) {
    if let (Some(certificate), Some(key)) = (certificate, key) {
        let (certificate, key) = (certificate.is_some(), key.is_some());
        section.check(key || !certificate, "tls_cert_file", "needs producer.tls_key_file");
        section.check(certificate || !key, "tls_key_file", "needs producer.tls_cert_file");
    }
}

/// Two listeners can't have one address; port 0 is a different one each time.
fn check_distinct(
    section: &mut Section<'_>,
    listen: Option<SocketAddr>,
    others: [(&'static str, Option<SocketAddr>); 2],
) {
    let mut taken: Vec<SocketAddr> = listen.into_iter().collect();
    for (name, address) in others {
        let Some(address) = address else { continue };
        let free = address.port() == 0 || !taken.contains(&address);
        section.check(free, name, "must differ from the other listeners of [producer]");
        taken.push(address);
    }
}

const OPEN: &str = "is open to other hosts: set producer.keys_file, or producer.allow_anonymous \
    = true, or a loopback address in producer.listen";

const OPERATORS_OPEN: &str = "is open to other hosts: set producer.keys_file, or a loopback \
    address; whoever reaches it may stop queues and run requests again";

fn limits(section: &mut Section<'_>) -> Option<HttpLimits> {
    let max_connections = section.within("max_connections", "4096", 1..=1_000_000_u64);
    let max_headers = section.within("max_headers", "64", 8..=1_000_u64);
    let max_head = section.within("max_head", "32KiB", Size(8 << 10)..=Size(1 << 20));
    let idle_timeout = section.within("idle_timeout", "30s", SECOND..=3_600 * SECOND);
    let body_timeout = section.within("body_timeout", "30s", SECOND..=3_600 * SECOND);
    Some(HttpLimits {
        max_connections: usize::try_from(max_connections?).ok()?,
        max_headers: usize::try_from(max_headers?).ok()?,
        max_head: max_head?.0,
        idle_timeout: idle_timeout?,
        body_timeout: body_timeout?,
    })
}
