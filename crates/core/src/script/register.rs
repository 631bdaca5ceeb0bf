//! `register`: rows of the two registries that lie beside the shards.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use bytes::Bytes;

use super::{Script, bytes_at, millis, rows, u64_at};
use crate::{
    Redis, StoreError,
    keys::{QUEUES, WORKERS},
    model::{MOST_SHARDS, QueueName, SCHEMA, Session},
};

pub(super) static REGISTER: Script<1, 4> =
    Script::new("register", include_str!("../../lua/register.lua"));

/// A worker's row is for eyes only, and forgotten when nobody has renewed it for a day; that it ended is as well.
const WORKER_KEPT: Duration = Duration::from_secs(24 * 3600);

/// A row of a registry.
pub enum Register<'a> {
    /// A queue and its number of shards.
    Queue(&'a QueueName, NonZeroU32),
    /// A worker session, and what it says of itself.
    Worker(Session, &'a str),
    /// The end of a worker session: it is shown no more, and a row of it that arrives later does not come back.
    Ended(Session),
}

/// What the registry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterReply {
    /// The same; the server's time in ms.
    Registered(u64),
    /// The queue was registered otherwise before: shards and schema.
    Differs(String),
    /// The worker has ended, now or before; the server's time in ms.
    Ended(u64),
}

impl Register<'_> {
    /// Runs the script.
    pub async fn run(&self, redis: &Redis) -> Result<RegisterReply, StoreError> {
        let (key, kind, name, value) = match self {
            Self::Queue(queue, shards) => {
                (QUEUES, "queue", queue.to_string(), format!("{shards} {SCHEMA}"))
            }
            Self::Worker(session, text) => {
                (WORKERS, "worker", session.to_string(), (*text).to_owned())
            }
            Self::Ended(session) => (WORKERS, "ended", session.to_string(), String::new()),
        };
        let head = [
            Bytes::from_static(kind.as_bytes()),
            Bytes::from(name),
            Bytes::from(value),
            millis(WORKER_KEPT),
        ];
        REGISTER
            .run_once(redis, [key], head, |word, rest| match word {
                b"registered" => Some(RegisterReply::Registered(u64_at(rest, 0)?)),
                b"ended" => Some(RegisterReply::Ended(u64_at(rest, 0)?)),
                b"differs" => Some(RegisterReply::Differs(
                    String::from_utf8_lossy(&bytes_at(rest, 0)?).into_owned(),
                )),
                _ => None,
            })
            .await
    }
}

/// The registered queues with their number of shards. Rows of another schema are left out, and those of more shards than
/// a queue may have: whoever looks into each shard would never come to an end.
pub async fn registered_queues(
    redis: &Redis,
) -> Result<BTreeMap<QueueName, NonZeroU32>, StoreError> {
    let rows = rows(redis, QUEUES).await?;
    Ok(rows.iter().filter_map(|(name, value)| queue_of(name, value)).collect())
}

/// Reads a row of the registry of queues.
fn queue_of(name: &[u8], value: &[u8]) -> Option<(QueueName, NonZeroU32)> {
    let (shards, schema) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    (schema.parse() == Ok(SCHEMA)).then_some(())?;
    let shards: NonZeroU32 = shards.parse().ok()?;
    let name = QueueName::try_from(std::str::from_utf8(name).ok()?).ok()?;
    (shards.get() <= MOST_SHARDS).then_some((name, shards))
}

/// A worker as the registry shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRow {
    /// Its session.
    pub session: Session,
    /// When it last said so, in ms of the Redis clock.
    pub seen: u64,
    /// What it says of itself.
    pub text: String,
}

/// The registry of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerRegistry {
    /// Those that have not said that they ended.
    pub workers: Vec<WorkerRow>,
    /// When the last one said so, in ms of the Redis clock, if one did within a day.
    pub last_ended: Option<u64>,
}

impl WorkerRegistry {
    /// Reads it. What is laid out otherwise is left out.
    pub async fn read(redis: &Redis) -> Result<Self, StoreError> {
        let mut registry = Self::default();
        for (name, value) in rows(redis, WORKERS).await? {
            let Some((seen, text)) = value.split_first_chunk() else { continue };
            let (seen, name) = (u64::from_be_bytes(*seen), String::from_utf8_lossy(&name));
            if name.starts_with(ENDED) {
                registry.last_ended = registry.last_ended.max(Some(seen));
            } else if let Ok(session) = name.parse() {
                let text = String::from_utf8_lossy(text).into_owned();
                registry.workers.push(WorkerRow { session, seen, text });
            }
        }
        Ok(registry)
    }
}

/// What the name of a row begins with that says when a worker ended.
const ENDED: char = '-';

/// The registered workers.
pub async fn registered_workers(redis: &Redis) -> Result<Vec<WorkerRow>, StoreError> {
    Ok(WorkerRegistry::read(redis).await?.workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_no_queue_can_have_is_left_out() {
        let shards = |name: &[u8], value: &[u8]| queue_of(name, value).map(|(_, it)| it.get());
        assert_eq!(shards(b"q", b"256 1"), Some(256));
        for (name, value) in [
            (&b"q"[..], &b"257 1"[..]),
            (b"q", b"4294967295 1"),
            (b"q", b"0 1"),
            (b"q", b"1 2"),
            (b"q", b"1"),
            (b"q", b"\xff 1"),
            (b"Q", b"1 1"),
        ] {
            assert_eq!(shards(name, value), None, "{}", value.escape_ascii());
        }
    }
}
