//! Queues, leases and workers, as rows for tables and for JSON. Times are Unix seconds of the Redis clock.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::{Overrides, Queue, Seconds, overrides, why::worker_name};
use crate::{
    Redis, StoreError,
    inspect::{self, Page},
    keys::ShardKeys,
    model::{Failure, Session},
    script::{Depth, DepthReply, MAX_ITEMS, registered_workers},
};

/// A list, and what it leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rows<T> {
    /// What is shown.
    pub rows: Vec<T>,
    /// Members that are not laid out as this version writes them.
    pub unreadable: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// How many are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Claimable.
    pub pending: u64,
    /// Claimable, apart.
    pub suspects: u64,
    /// Waiting for their time.
    pub delayed: u64,
    /// With workers.
    pub leased: u64,
    /// Ended, kept for their readers.
    pub finished: u64,
    /// Ended, kept for an operator.
    pub dead: u64,
}

/// A queue over all its shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueRow {
    /// Its name.
    pub name: String,
    /// How many shards it has.
    pub shards: u32,
    /// What it holds.
    pub requests: Counts,
    /// Bytes of requests and records.
    pub bytes: u64,
    /// Whether an operator stopped its claims in any shard.
    pub paused: bool,
    /// An operator's limit of what is in flight.
    pub limit: Option<u64>,
    /// What operators say, with the versions to name when it is said anew.
    pub overrides: Overrides,
    /// Age of the oldest head of a shard.
    pub head_age_seconds: Option<Seconds>,
    /// Time until the next deadline of a head.
    pub head_slack_seconds: Option<Seconds>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LastFailure {
    /// The kind.
    pub code: String,
    /// The gateway's status, if it gave one.
    pub status: Option<u16>,
    /// When; none where only the kind is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<Seconds>,
}

/// A running lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseRow {
    /// Its queue.
    pub queue: String,
    /// Its shard there.
    pub shard: u32,
    /// The request's id; none if that is lost.
    pub id: Option<String>,
    /// Its tenant; none if that is lost.
    pub tenant: Option<String>,
    /// Its field in the shard's hashes, in hex.
    pub key: String,
    /// Its member in the sorted sets, in hex.
    pub handle: String,
    /// Whose claim it is: session and call.
    pub fence: String,
    /// What its worker calls itself, if the registry tells.
    pub worker: Option<String>,
    /// The worker's session.
    pub session: Option<String>,
    /// Dispatches so far, this one included.
    pub attempts: Option<u32>,
    /// Leases that ran out.
    pub lapses: Option<u16>,
    /// Those that an outage is to blame for.
    pub forgiven: Option<u16>,
    /// Whether its caller wants it stopped.
    pub cancel_asked: Option<bool>,
    /// Since when it is held.
    pub claimed_at: Option<Seconds>,
    /// When it lapses.
    pub expires_at: Seconds,
    /// For how long it has been held.
    pub age_seconds: Option<Seconds>,
    /// For how long it still runs; 0: it lapsed.
    pub left_seconds: Seconds,
}

/// A worker as the registry shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerRow {
    /// What it calls itself.
    pub name: String,
    /// Its session, new with each start.
    pub session: String,
    /// Its version, if it tells.
    pub version: Option<String>,
    /// How much it works on at once, if it tells.
    pub concurrency: Option<u64>,
    /// How many leases it holds now, over the queues that were looked at.
    pub leases: u64,
    /// How long ago it was last heard of; it says once a minute that it is there.
    pub seen_seconds_ago: Seconds,
}

impl LastFailure {
    /// A failure, and when it was in ms; 0: not known.
    pub fn of((failure, at): (Failure, u64)) -> Self {
        Self {
            code: failure.code.word().to_owned(),
            status: Some(failure.status).filter(|status| *status > 0),
            at: Some(at).filter(|at| *at > 0).map(Seconds),
        }
    }

    /// The kind and the status, in words.
    pub fn words(&self) -> String {
        match self.status {
            Some(status) => format!("{} {status}", self.code),
            None => self.code.clone(),
        }
    }
}

/// Queues with what they hold.
pub async fn queue_rows(redis: &Redis, queues: &[Queue]) -> Result<Vec<QueueRow>, StoreError> {
    let mut rows = Vec::new();
    for queue in queues {
        let mut depths = Vec::new();
        for shard in &queue.keys() {
            depths.push(Depth { shard }.run(redis).await?);
        }
        rows.push(QueueRow::of(queue, &depths, overrides(redis, queue).await?));
    }
    Ok(rows)
}

impl QueueRow {
    fn of(queue: &Queue, depths: &[DepthReply], overrides: Overrides) -> Self {
        let sum = |count: fn(&DepthReply) -> u64| depths.iter().map(count).sum::<u64>();
        let ages = depths.iter().filter_map(|it| Some(it.now.saturating_sub(it.head_submitted?)));
        let slacks = depths.iter().filter_map(|it| Some(it.head_deadline?.saturating_sub(it.now)));
        Self {
            name: queue.name.to_string(),
            shards: queue.shards.get(),
            requests: Counts {
                pending: sum(|it| it.pending),
                suspects: sum(|it| it.suspects),
                delayed: sum(|it| it.delayed),
                leased: sum(|it| it.leased),
                finished: sum(|it| it.finished),
                dead: sum(|it| it.dead),
            },
            bytes: sum(|it| it.bytes),
            paused: depths.iter().any(|it| it.paused),
            limit: depths.iter().find_map(|it| it.limit),
            overrides,
            head_age_seconds: ages.max().map(Seconds),
            head_slack_seconds: slacks.min().map(Seconds),
        }
    }
}

/// The leases of these queues, those that lapse next first, `limit` in all.
pub async fn lease_rows(
    redis: &Redis,
    queues: &[Queue],
    limit: usize,
) -> Result<Rows<LeaseRow>, StoreError> {
    let workers = registered_workers(redis).await?;
    let workers: BTreeMap<Session, String> =
        workers.into_iter().map(|row| (row.session, worker_name(&row.text))).collect();
    let mut list = Rows { rows: Vec::new(), unreadable: 0, more: false };
    for shard in queues.iter().flat_map(Queue::keys) {
        let now = Depth { shard: &shard }.run(redis).await?.now;
        let found = of_shard(redis, &shard, limit).await?;
        list.unreadable += found.unreadable;
        list.more |= found.more;
        list.rows.extend(found.rows.iter().map(|row| LeaseRow::of(&shard, row, &workers, now)));
        // A later shard may hold those that lapse sooner; what is cut off here it can't bring back.
        list.rows.sort_by_key(|row| row.expires_at);
        list.more |= list.rows.len() > limit;
        list.rows.truncate(limit);
    }
    Ok(list)
}

/// The leases of a shard that lapse next.
async fn of_shard(
    redis: &Redis,
    shard: &ShardKeys,
    limit: usize,
) -> Result<Rows<inspect::LeaseRow>, StoreError> {
    let mut found = Rows { rows: Vec::new(), unreadable: 0, more: true };
    let mut offset = 0;
    while found.more && found.rows.len() < limit {
        let room = MAX_ITEMS.min(limit - found.rows.len());
        let page: Page<inspect::LeaseRow> = inspect::leases(redis, shard, offset, room).await?;
        found.unreadable += page.unreadable;
        found.rows.extend(page.rows);
        found.more = page.more;
        offset += room;
    }
    Ok(found)
}

impl LeaseRow {
    fn of(
        shard: &ShardKeys,
        lease: &inspect::LeaseRow,
        workers: &BTreeMap<Session, String>,
        now: u64,
    ) -> Self {
        let ticket = lease.ticket.as_ref();
        let identity = ticket.and_then(|ticket| ticket.identity.as_ref());
        let session = lease.fence.session();
        let claimed_at = ticket.map(|ticket| ticket.claimed_at).filter(|at| *at > 0);
        Self {
            queue: shard.queue.to_string(),
            shard: shard.shard,
            id: identity.map(|identity| identity.id.text()),
            tenant: identity.map(|identity| identity.tenant.to_string()),
            key: lease.handle.key().to_string(),
            handle: lease.handle.to_string(),
            fence: lease.fence.to_string(),
            worker: session.and_then(|session| workers.get(&session).cloned()),
            session: session.map(|session| session.to_string()),
            attempts: ticket.map(|ticket| ticket.attempts),
            lapses: ticket.map(|ticket| ticket.lapses),
            forgiven: ticket.map(|ticket| ticket.forgiven),
            cancel_asked: ticket.map(|ticket| ticket.cancel_asked),
            claimed_at: claimed_at.map(Seconds),
            expires_at: Seconds(lease.expires_at),
            age_seconds: claimed_at.map(|at| Seconds(now.saturating_sub(at))),
            left_seconds: Seconds(lease.expires_at.saturating_sub(now)),
        }
    }
}

/// The registered workers and how many leases of these queues each holds, those seen last first.
pub async fn worker_rows(redis: &Redis, queues: &[Queue]) -> Result<Vec<WorkerRow>, StoreError> {
    #[derive(Default, Deserialize)]
    struct Told {
        version: Option<String>,
        concurrency: Option<u64>,
    }
    let mut held: HashMap<Session, u64> = HashMap::new();
    let mut now = 0;
    for shard in queues.iter().flat_map(Queue::keys) {
        now = Depth { shard: &shard }.run(redis).await?.now.max(now);
        for session in inspect::holders(redis, &shard).await? {
            *held.entry(session).or_default() += 1;
        }
    }
    let mut rows = registered_workers(redis).await?;
    // Without a queue the newest row stands for the time.
    now = rows.iter().map(|row| row.seen).max().unwrap_or(0).max(now);
    rows.sort_by_key(|row| std::cmp::Reverse((row.seen, row.session)));
    let shown = rows.into_iter().map(|row| {
        let told: Told = serde_json::from_str(&row.text).unwrap_or_default();
        WorkerRow {
            name: worker_name(&row.text),
            session: row.session.to_string(),
            version: told.version,
            concurrency: told.concurrency,
            leases: held.get(&row.session).copied().unwrap_or(0),
            seen_seconds_ago: Seconds(now.saturating_sub(row.seen)),
        }
    });
    Ok(shown.collect())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::model::{Digest, Draft, Fence, Generation, Handle, Identity, Key, Ticket};

    #[test]
    fn a_queue_is_the_sum_of_its_shards_with_the_head_that_matters() {
        let one = DepthReply {
            pending: 2,
            bytes: 100,
            now: 10_000,
            head_submitted: Some(8_000),
            head_deadline: Some(70_000),
            ..DepthReply::default()
        };
        let other = DepthReply {
            pending: 3,
            dead: 1,
            paused: true,
            limit: Some(8),
            now: 10_500,
            head_submitted: Some(1_000),
            head_deadline: Some(90_000),
            ..DepthReply::default()
        };
        let queue = Queue { name: "q".try_into().unwrap(), shards: NonZeroU32::new(2).unwrap() };
        let row = QueueRow::of(&queue, &[one, other], Overrides::default());
        assert_eq!((row.requests.pending, row.requests.dead, row.bytes), (5, 1, 100));
        assert_eq!((row.paused, row.limit), (true, Some(8)));
        assert_eq!(row.head_age_seconds, Some(Seconds(9_500)));
        assert_eq!(row.head_slack_seconds, Some(Seconds(60_000)));
    }

    fn lease(ticket: Option<Ticket>) -> inspect::LeaseRow {
        let handle = Handle::new(1, Generation::from([3; 8]), Key::from([9; 16]));
        let fence = Fence::new(Session::from([0xab; 8]), 2);
        inspect::LeaseRow { fence, handle, expires_at: 17_000, ticket }
    }

    fn ticket() -> Ticket {
        let identity = Identity { tenant: "t".try_into().unwrap(), id: "i".try_into().unwrap() };
        let generation = Generation::from([3; 8]);
        let digest = Digest([0; 32]);
        let draft = Draft { generation, digest, deadline: 1, not_before: 0, body_size: 0 };
        let ticket = Ticket::unpack(draft.pack(&identity, "")).unwrap();
        Ticket { attempts: 2, lapses: 1, claimed_at: 10_000, ..ticket }
    }

    fn row(lease: &inspect::LeaseRow, workers: &[(Session, &str)]) -> LeaseRow {
        let shard = ShardKeys::new(&"q".try_into().unwrap(), 0);
        let workers =
            workers.iter().map(|(session, name)| (*session, (*name).to_owned())).collect();
        LeaseRow::of(&shard, lease, &workers, 12_500)
    }

    #[test]
    fn a_lease_is_shown_with_its_holder_and_the_key_that_its_fields_lie_under() {
        let row = row(&lease(Some(ticket())), &[(Session::from([0xab; 8]), "gpu-7")]);
        assert_eq!((row.id.as_deref(), row.worker.as_deref()), (Some("i"), Some("gpu-7")));
        assert_eq!((row.age_seconds, row.left_seconds), (Some(Seconds(2_500)), Seconds(4_500)));
        assert_eq!(row.handle, format!("0000000000000001{}{}", "03".repeat(8), "09".repeat(16)));
        assert_eq!(row.key, "09".repeat(16));
        assert_eq!(row.session.as_deref(), Some("abababababababab"));
    }

    #[test]
    fn a_lease_whose_ticket_is_lost_is_shown_by_what_is_left() {
        let row = row(&lease(None), &[]);
        assert_eq!((row.id, row.worker, row.attempts), (None, None, None));
        assert_eq!(row.left_seconds, Seconds(4_500));
    }

    #[test]
    fn a_worker_is_called_by_its_name() {
        assert_eq!(worker_name(r#"{"name":"gpu-7","version":"1","concurrency":64}"#), "gpu-7");
        assert_eq!(worker_name("gpu-7"), "gpu-7");
    }
}
