//! `[queues.<name>]`: a target, and the policy for what goes there.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::model::MOST_SHARDS;
use holdfast_core::redis::Level;

use super::allowed::{self, Allowed};
use super::given::Given;
use super::secret::SecretFile;
use super::section::{Section, Shown};
use super::target::{RequestPath, Target};
use super::value::{Setting, Size, quoted};
use super::worker::MOST_SLOTS;

/// `[queues.<name>]`, checked.
#[derive(Clone, Debug)]
pub struct QueueSettings {
    /// The inference server.
    pub target: Target,
    /// Where requests go that name no path of their own.
    pub path: RequestPath,
    /// What a request may say of its own call.
    pub allowed: Allowed,
    /// Certificates and credentials towards the target.
    pub credentials: Credentials,
    /// Which HTTP is spoken to the target.
    pub http: HttpVersion,
    /// How many calls share one connection of HTTP/2.
    pub streams: usize,
    /// The parts that the queue is split into.
    pub shards: NonZeroU32,
    /// How many requests it may hold.
    pub capacity: u64,
    /// How many bytes of requests and records.
    pub capacity_bytes: u64,
    /// How many may be leased at once, over all workers.
    pub in_flight: Option<u64>,
    /// How many one worker works on at once; none: as many as the worker says.
    pub concurrency: Option<usize>,
    /// Whether the target gets fewer calls while it refuses them.
    pub breaker: bool,
    /// How many attempts a request has; none: until its deadline.
    pub max_attempts: Option<u32>,
    /// The lapse that ends a request as `killed-workers`.
    pub max_lapses: u32,
    /// The longest body of a request.
    pub body_limit: u64,
    /// The longest answer that is kept.
    pub answer_limit: u64,
    /// How long things may take, and how long records are kept.
    pub times: QueueTimes,
    /// How safe an answer is before it is given.
    pub durability: Durability,
    /// The replicas that `replicated` waits for, 1 to 16.
    pub replicas: u64,
}

/// The certificates and credentials of a queue.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Holds the bearer token for the target.
    pub credential_file: Option<SecretFile>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate that this side shows.
    pub client_cert_file: Option<PathBuf>,
    /// Its key.
    pub client_key_file: Option<PathBuf>,
}

/// The times of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueTimes {
    /// From submit to deadline, where the request names neither.
    pub timeout_default: Duration,
    /// How long an end is readable.
    pub retention: Duration,
    /// How long a dead letter is kept.
    pub dead_retention: Duration,
    /// To connect to the target.
    pub connect_timeout: Duration,
    /// Between two pieces of an answer.
    pub stall_timeout: Duration,
    /// For an attempt as a whole.
    pub attempt_timeout: Duration,
}

/// Which HTTP is spoken to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// What TLS agrees on; HTTP/1.1 without TLS.
    Auto,
    /// HTTP/1.1.
    One,
    /// HTTP/2, also without TLS.
    Two,
}

impl QueueSettings {
    /// What is waited for before an answer is given; none: nothing.
    pub fn level(&self) -> Option<Level> {
        match self.durability {
            Durability::Acknowledged => None,
            Durability::Fsynced => Some(Level::Fsynced),
            Durability::Replicated => Some(Level::Replicated(self.replicas)),
        }
    }
}

/// How safe an answer is before it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As durable as this Redis.
    Acknowledged,
    /// On the disk of this Redis.
    Fsynced,
    /// On all replicas that may be promoted.
    Replicated,
}

impl Setting for HttpVersion {
    const RULE: &'static str = "must be auto, 1 or 2";

    fn read(given: &Given) -> Option<Self> {
        match (given.text(), given.whole()) {
            (Some("auto"), _) => Some(Self::Auto),
            (Some("1"), _) | (_, Some(1)) => Some(Self::One),
            (Some("2"), _) | (_, Some(2)) => Some(Self::Two),
            _ => None,
        }
    }

    fn write(&self) -> String {
        quoted(match self {
            Self::Auto => "auto",
            Self::One => "1",
            Self::Two => "2",
        })
    }
}

impl Setting for Durability {
    const RULE: &'static str = "must be acknowledged, fsynced or replicated";

    fn read(given: &Given) -> Option<Self> {
        match given.text()? {
            "acknowledged" => Some(Self::Acknowledged),
            "fsynced" => Some(Self::Fsynced),
            "replicated" => Some(Self::Replicated),
            _ => None,
        }
    }

    fn write(&self) -> String {
        quoted(match self {
            Self::Acknowledged => "acknowledged",
            Self::Fsynced => "fsynced",
            Self::Replicated => "replicated",
        })
    }
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// Requests have a deadline at most so far ahead.
const FURTHEST_DEADLINE: Duration = Duration::from_secs(30 * 86_400);

/// A repeat of a submit is told by the record of the first for at least so long.
const SHORTEST_RETENTION: Duration = Duration::from_secs(600);

/// Longer texts are no single value of Redis for certain.
const SIZES: RangeInclusive<Size> = Size(1)..=Size(256 << 20);

const MANY: u64 = 1_000_000_000;

pub(super) fn read(mut section: Section<'_>) -> (Option<QueueSettings>, Shown) {
    let s = &mut section;
    let target: Option<Target> = s.required("target");
    let path: Option<RequestPath> = s.field("path", "/v1/chat/completions");
    let allowed = allowed::read(s, path.as_ref());
    let credentials = credentials(s, target.as_ref());
    let http: Option<HttpVersion> = s.field("http", "auto");
    let streams = s.within("streams", "100", 1..=MOST_SLOTS);
    let room = room(s);
    let concurrency = s.optional_within("concurrency", 1..=MOST_SLOTS);
    let breaker: Option<bool> = s.field("breaker", "true");
    let max_attempts = s.optional_within("max_attempts", 1..=1_000_000_u64);
    let max_lapses = s.within("max_lapses", "5", 4..=100_u64);
    let answer_limit = s.within("answer_limit", "32MiB", SIZES);
    let times = times(s);
    let durability: Option<Durability> = s.field("durability", "acknowledged");
    let replicas = s.within("replicas", "1", 1..=16_u64);
    let shown = section.finish();
    let checked = || {
        let room = room?;
        Some(QueueSettings {
            target: target?,
            path: path?,
            allowed: allowed?,
            credentials: credentials?,
            http: http?,
            streams: usize::try_from(streams?).ok()?,
            shards: room.shards,
            capacity: room.capacity,
            capacity_bytes: room.capacity_bytes,
            in_flight: room.in_flight,
            concurrency: whole(concurrency?)?,
            breaker: breaker?,
            max_attempts: whole(max_attempts?)?,
            max_lapses: u32::try_from(max_lapses?).ok()?,
            body_limit: room.body_limit,
            answer_limit: answer_limit?.0,
            times: times?,
            durability: durability?,
            replicas: replicas?,
        })
    };
    (checked(), shown)
}

/// What a queue may hold, over its shards.
struct Room {
    shards: NonZeroU32,
    capacity: u64,
    capacity_bytes: u64,
    in_flight: Option<u64>,
    body_limit: u64,
}

fn room(s: &mut Section<'_>) -> Option<Room> {
    let shards = s.within("shards", "1", 1..=u64::from(MOST_SHARDS));
    let capacity = s.within("capacity", "100000", 1..=MANY);
    let capacity_bytes = s.within("capacity_bytes", "1GiB", Size(1)..=Size(1 << 50));
    let in_flight = s.optional_within("in_flight", 1..=MANY);
    let body_limit = s.within("body_limit", "8MiB", SIZES);
    if let Some(shards) = shards {
        check_split(s, shards, &[("capacity", capacity), ("in_flight", in_flight.flatten())]);
    }
    if let (Some(shards), Some(Size(bytes)), Some(Size(body))) =
        (shards, capacity_bytes, body_limit)
    {
        let fits = bytes / shards >= body;
        s.check(fits, "capacity_bytes", "must hold one body of body_limit in each shard");
    }
    Some(Room {
        shards: NonZeroU32::new(u32::try_from(shards?).ok()?)?,
        capacity: capacity?,
        capacity_bytes: capacity_bytes?.0,
        in_flight: in_flight?,
        body_limit: body_limit?.0,
    })
}

/// A count that may be absent, in its own type.
fn whole<T: TryFrom<u64>>(count: Option<u64>) -> Option<Option<T>> {
    count.map(T::try_from).transpose().ok()
}

/// A limit below the number of shards would leave some of them nothing.
fn check_split(section: &mut Section<'_>, shards: u64, limits: &[(&str, Option<u64>)]) {
    for (name, limit) in limits {
        let enough = limit.is_none_or(|limit| limit >= shards);
        section.check(enough, name, "must be at least the number of shards");
    }
}

fn credentials(section: &mut Section<'_>, target: Option<&Target>) -> Option<Credentials> {
    let credential_file: Option<Option<SecretFile>> = section.optional("credential_file");
    let ca_file: Option<Option<PathBuf>> = section.optional("ca_file");
    let certificate: Option<Option<PathBuf>> = section.optional("client_cert_file");
    let key: Option<Option<PathBuf>> = section.optional("client_key_file");
    let is_set = |file: &Option<Option<PathBuf>>| matches!(file, Some(Some(_)));
    if target.is_some_and(|target| !target.is_tls()) {
        for (name, file) in [("ca_file", &ca_file), ("client_cert_file", &certificate)] {
            section.check(!is_set(file), name, "needs TLS: the target must start with https");
        }
    }
    if let (Some(certificate), Some(key)) = (&certificate, &key) {
        let (certificate, key) = (certificate.is_some(), key.is_some());
        section.check(key || !certificate, "client_cert_file", "needs client_key_file");
        section.check(certificate || !key, "client_key_file", "needs client_cert_file");
    }
    Some(Credentials {
        credential_file: credential_file?,
        ca_file: ca_file?,
        client_cert_file: certificate?,
        client_key_file: key?,
    })
}

fn times(section: &mut Section<'_>) -> Option<QueueTimes> {
    let millis = Duration::from_millis(1);
    let timeout_default = section.within("timeout_default", "24h", SECOND..=FURTHEST_DEADLINE);
    let retention = section.within("retention", "24h", SHORTEST_RETENTION..=365 * DAY);
    let dead_retention = section.within("dead_retention", "7d", SHORTEST_RETENTION..=365 * DAY);
    let connect_timeout = section.within("connect_timeout", "5s", millis..=5 * MINUTE);
    let stall_timeout = section.within("stall_timeout", "60s", millis..=DAY);
    let attempt_timeout = section.within("attempt_timeout", "15m", millis..=DAY);
    Some(QueueTimes {
        timeout_default: timeout_default?,
        retention: retention?,
        dead_retention: dead_retention?,
        connect_timeout: connect_timeout?,
        stall_timeout: stall_timeout?,
        attempt_timeout: attempt_timeout?,
    })
}
