//! Dead letters: which there are, and what is kept of one.

mod filter;
mod redrive;
mod walk;

use serde::{Deserialize, Serialize};

use super::{
    ActError, LastFailure, Queue, Seconds, Target,
    single::{is_of, look},
};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Handle, Home, Record},
    plain,
    script::{Found, Read},
};

pub use filter::{DeadFilter, FilterFault};
pub use redrive::{RedriveAsk, Redriven, count, redrive};
use walk::{Cursor, Walk};

/// At how many dead letters one call looks: a page may be short, or empty, and go on all the same.
const LOOKED_AT: usize = 4096;

/// A dead letter. Times are Unix seconds of the Redis clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadRow {
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
    /// Its generation.
    pub generation: String,
    /// How it ended; none if that is lost.
    pub outcome: Option<String>,
    /// The last failure before that.
    pub last_failure: Option<LastFailure>,
    /// Dispatches made.
    pub attempts: Option<u32>,
    /// Leases that ran out.
    pub lapses: Option<u16>,
    /// Those that an outage is to blame for.
    pub forgiven: Option<u16>,
    /// When it ended; none if that is lost.
    pub ended_at: Option<Seconds>,
    /// Until when it is kept.
    pub kept_until: Seconds,
}

/// A part of the dead letters of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadPage {
    /// Those that match.
    pub rows: Vec<DeadRow>,
    /// Members that are not laid out as this version writes them.
    pub unreadable: usize,
    /// Where to go on; none: this was the end.
    pub cursor: Option<String>,
}

/// Everything that is kept of a dead letter, but for its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadLetter {
    /// What the list shows of it.
    #[serde(flatten)]
    pub row: DeadRow,
    /// Whether its body is there: without it, it cannot run again.
    pub has_body: bool,
    /// The length of its body.
    pub body_bytes: u32,
    /// The gateway's status, if there was an answer.
    pub gateway_status: Option<u16>,
    /// When it was accepted.
    pub submitted_at: Seconds,
    /// After this, no answer was wanted.
    pub deadline: Seconds,
    /// The generation that an earlier redrive replaced.
    pub previous: Option<String>,
}

/// The dead letters of a queue that match, those that are kept shortest first in each shard, from a cursor on.
pub async fn dead_rows(
    redis: &Redis,
    queue: &Queue,
    filter: &DeadFilter,
    cursor: Option<&str>,
    limit: usize,
) -> Result<DeadPage, ActError> {
    filter.check()?;
    let mut walk = Walk::new(redis, queue, Cursor::parse(cursor, queue)?);
    let mut page = DeadPage { rows: Vec::new(), unreadable: 0, cursor: None };
    let mut looked = 0;
    while let Some(batch) = walk.next().await? {
        page.unreadable += batch.unreadable;
        looked += batch.letters.len();
        for letter in batch.letters {
            if page.rows.len() == limit {
                return Ok(page);
            }
            page.cursor = Some(letter.cursor.to_string());
            if filter.takes(&letter.row, batch.now) {
                page.rows.push(letter.row);
            }
        }
        if looked >= LOOKED_AT {
            return Ok(page);
        }
    }
    page.cursor = None;
    Ok(page)
}

/// One dead letter with everything but its body.
pub async fn dead_letter(redis: &Redis, target: Target<'_>) -> Result<DeadLetter, ActError> {
    let (shard, key) = target.queue.place(target.identity);
    let found = look(redis, &shard, key).await?.filter(|found| is_of(found, target.identity));
    let found = found.ok_or(ActError::Unknown)?;
    if found.home != Some(Home::Dead) {
        let home = found.home.map_or("nowhere", Home::word);
        return Err(ActError::Elsewhere(format!("it is {home}, and no dead letter")));
    }
    let handle = found.ticket.handle(key);
    let has_body = plain::length(redis, "dead", &shard.request, key).await? > 0;
    let ticket = &found.ticket;
    let status = Record::head(&found.record).map(|record| record.status);
    Ok(DeadLetter {
        has_body,
        body_bytes: ticket.body_size,
        gateway_status: status.filter(|status| *status > 0),
        submitted_at: Seconds(ticket.submitted_at),
        deadline: Seconds(ticket.deadline),
        previous: ticket.previous.map(|previous| previous.generation.to_string()),
        row: DeadRow::of(&shard, handle, found.score, Some(&found)),
    })
}

impl DeadRow {
    /// What is known of a member of `dead`.
    fn of(shard: &ShardKeys, handle: Handle, kept_until: u64, found: Option<&Found>) -> Self {
        let own = found.filter(|found| found.ticket.generation == handle.generation());
        let ticket = own.map(|found| &found.ticket);
        let record = own.and_then(|found| Record::head(&found.record));
        let identity = ticket.and_then(|ticket| ticket.identity.as_ref());
        let failed = ticket.and_then(|ticket| ticket.failure);
        let failed = record.and_then(|record| Some((record.failure?, 0))).or(failed);
        Self {
            queue: shard.queue.to_string(),
            shard: shard.shard,
            id: identity.map(|identity| identity.id.text()),
            tenant: identity.map(|identity| identity.tenant.to_string()),
            key: handle.key().to_string(),
            handle: handle.to_string(),
            generation: handle.generation().to_string(),
            outcome: record.map(|record| record.outcome.word().to_owned()),
            last_failure: failed.map(LastFailure::of),
            attempts: ticket.map(|ticket| ticket.attempts),
            lapses: ticket.map(|ticket| ticket.lapses),
            forgiven: ticket.map(|ticket| ticket.forgiven),
            ended_at: record.map(|record| Seconds(record.ended_at)),
            kept_until: Seconds(kept_until),
        }
    }
}

/// What is kept under some keys, the heads of their records with it.
async fn read_all(
    redis: &Redis,
    shard: &ShardKeys,
    handles: &[Handle],
) -> Result<Vec<Option<Found>>, StoreError> {
    let keys: Vec<_> = handles.iter().map(Handle::key).collect();
    Read { shard, keys: &keys, whole: 0, tick: false }.run(redis).await
}
