//! Everything that a sentence may be about, read beside the scripts, one bounded look each.

use std::collections::HashMap;

use bytes::Bytes;
use fred::types::Value;
use serde::Deserialize;

use super::{
    Line, Queue,
    suspects::{self, Elsewhere},
};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle, Home, Identity, Key, QueueName, Session},
    operate::{
        single::{is_of, look},
        span,
    },
    plain,
    script::{Depth, Found, WorkerRegistry, WorkerRow},
};

/// How the reads are called in errors.
const CALL: &str = "why";

/// A worker says once a minute that it is there; one that did not twice, in ms, is not.
pub(crate) const WORKER_SEEN: u64 = 120_000;

/// After this one of its words is late, in ms: its look at Redis takes a moment, too.
const WORKER_LATE: u64 = 70_000;

/// The rate of a shard is that of its last minute.
const MINUTE: u64 = 60_000;

/// The longest estimate that is worth telling, in seconds: a day.
const LONGEST: u64 = 86_400;

/// What an operator or the settings limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limit {
    /// This shard's part.
    pub(super) share: u64,
    /// The whole, where an operator said it; none: the settings did.
    pub(super) of_operator: Option<u64>,
}

/// What was seen of one request and its shard.
pub(super) struct Facts {
    pub(super) queue: QueueName,
    pub(super) tenant: String,
    pub(super) id: String,
    pub(super) key: Key,
    /// The server's time, in ms.
    pub(super) now: u64,
    /// The ticket that can be read, with its home.
    pub(super) found: Option<Found>,
    pub(super) has_ticket: bool,
    pub(super) has_request: bool,
    pub(super) has_result: bool,
    pub(super) paused: bool,
    pub(super) limit: Option<Limit>,
    pub(super) leased: u64,
    /// Pending and suspects.
    pub(super) waiting: u64,
    pub(super) ahead: u64,
    /// Whether another suspect of the shard is leased.
    pub(super) suspect_runs: bool,
    pub(super) ended_last_minute: u64,
    /// The workers of the registry.
    pub(super) workers: Vec<WorkerRow>,
    /// When the last one said that it ended.
    pub(super) last_ended: Option<u64>,
    /// Those that are there and have ever asked this shard for work.
    pub(super) serving: Vec<Session>,
    /// When the last of those that are there was heard of, here or in the registry.
    heard: u64,
    /// The suspects that run in other shards, where this is one and none runs in its own.
    pub(super) suspects: Vec<Elsewhere>,
    /// When somebody last renewed or reclaimed here; 0: never.
    pub(super) beat: u64,
}

/// What matters of a worker's row.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// What a worker says of the targets that it holds back. Each names its queue.
#[derive(Deserialize)]
struct HeldBack {
    breakers: Option<HashMap<String, Breaker>>,
}

/// A breaker that is not closed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Breaker {
    /// `open`: probes alone; `limited`: fewer calls at once.
    state: String,
    /// What the target did last: `429`, `503`, or the name of a transport fault.
    pub(super) reason: String,
}

impl Breaker {
    /// Whether only probes are sent.
    pub(super) fn is_open(&self) -> bool {
        self.state == "open"
    }
}

/// What a worker calls itself; all that it says where that is not to be read.
pub(in crate::operate) fn worker_name(text: &str) -> String {
    serde_json::from_str::<Named>(text).map_or_else(|_| text.to_owned(), |named| named.name)
}

impl Facts {
    /// Looks at everything; the request itself first.
    pub(super) async fn gather(
        redis: &Redis,
        queue: &Queue,
        identity: &Identity,
    ) -> Result<Self, StoreError> {
        let (shard, key) = queue.place(identity);
        let found = look(redis, &shard, key).await?.filter(|found| is_of(found, identity));
        let depth = Depth { shard: &shard }.run(redis).await?;
        let is_known = found.is_some();
        // Under the key of another's request lies nothing of this one.
        let is_others = !is_known && look(redis, &shard, key).await?.is_some();
        let mut there = [false; 3];
        if !is_others {
            for (there, hash) in
                there.iter_mut().zip([&shard.ticket, &shard.request, &shard.result])
            {
                *there = plain::length(redis, CALL, hash, key).await? > 0;
            }
        }
        let [has_ticket, has_request, has_result] = there;
        let registry = WorkerRegistry::read(redis).await?;
        let mut facts = Self {
            queue: queue.name.clone(),
            tenant: identity.tenant.to_string(),
            id: identity.id.to_string(),
            key,
            now: found.as_ref().map_or(depth.now, |found| found.now),
            found,
            has_ticket,
            has_request,
            has_result,
            paused: depth.paused,
            limit: None,
            leased: depth.leased,
            waiting: depth.pending + depth.suspects,
            ahead: 0,
            suspect_runs: false,
            ended_last_minute: 0,
            workers: registry.workers,
            last_ended: registry.last_ended,
            serving: Vec::new(),
            heard: 0,
            suspects: Vec::new(),
            beat: 0,
        };
        facts.look_around(redis, &shard).await?;
        Ok(facts)
    }

    /// What is seen of the shard.
    async fn look_around(&mut self, redis: &Redis, shard: &ShardKeys) -> Result<(), StoreError> {
        let names =
            ["limit", "limit_total", "in_flight", "suspect", "retention", "dead_retention", "beat"];
        let names = names.map(Value::from).to_vec();
        let meta = plain::named_fields(redis, CALL, &shard.meta, names).await?;
        let kept = |at: usize| meta.get(at).and_then(Option::as_ref);
        let number = |at: usize| plain::digits(kept(at));
        self.limit = number(0).or(number(2)).map(|share| Limit { share, of_operator: number(1) });
        self.beat = number(6).unwrap_or(0);
        if let Some(suspect) = kept(3) {
            let is_own =
                Fence::split_member(suspect).is_some_and(|(_, handle)| self.is_own(handle));
            let lease = plain::score(redis, CALL, &shard.leased, suspect.clone()).await?;
            self.suspect_runs = lease.is_some() && !is_own;
        }
        for (home, retention) in [(&shard.finished, number(4)), (&shard.dead, number(5))] {
            // What ended in the last minute is kept until a minute before the newest.
            let Some(retention) = retention else { continue };
            let least = self.now.saturating_add(retention).saturating_sub(MINUTE);
            let ended = plain::counted(redis, CALL, home, (format!("({least}"), "+inf".to_owned()));
            self.ended_last_minute += ended.await?;
        }
        self.ahead = self.count_ahead(redis, shard).await?;
        self.ask_here(redis, shard).await?;
        let is_suspect = self.found.as_ref().is_some_and(|it| it.home == Some(Home::Suspects));
        if is_suspect && !self.suspect_runs {
            self.suspects = suspects::elsewhere(redis, shard, &self.serving).await?;
        }
        Ok(())
    }

    fn is_own(&self, handle: Handle) -> bool {
        self.found.as_ref().is_some_and(|found| found.ticket.handle(self.key) == handle)
    }

    /// How many of the same shard are claimed before it.
    async fn count_ahead(&self, redis: &Redis, shard: &ShardKeys) -> Result<u64, StoreError> {
        let Some(found) = &self.found else { return Ok(0) };
        let (own, other) = match found.home {
            Some(Home::Pending) => (&shard.pending, None),
            // A suspect is taken in its turn with those that are none.
            Some(Home::Suspects) => (&shard.suspects, Some(&shard.pending)),
            _ => return Ok(0),
        };
        let handle = found.ticket.handle(self.key);
        let mut ahead = plain::rank(redis, CALL, own, handle).await?.unwrap_or(0);
        if let Some(other) = other {
            let bounds = ("-inf".to_owned(), format!("({}", found.ticket.deadline));
            ahead += plain::counted(redis, CALL, other, bounds).await?;
        }
        Ok(ahead)
    }

    /// Which of the workers that are there have ever asked this shard, and when the last one was heard of.
    async fn ask_here(&mut self, redis: &Redis, shard: &ShardKeys) -> Result<(), StoreError> {
        let present: Vec<(Session, u64)> =
            self.present().map(|row| (row.session, row.seen)).collect();
        let names = present.iter().map(|(session, _)| Value::from(session.to_string())).collect();
        let rows: Vec<Option<Bytes>> =
            plain::named_fields(redis, CALL, &shard.sessions, names).await?;
        for ((session, seen), row) in present.into_iter().zip(rows) {
            self.heard = self.heard.max(seen);
            let Some(row) = row else { continue };
            self.serving.push(session);
            // Behind the number of its last claim stands when that was.
            let claimed = row.get(16..24).and_then(|when| when.try_into().ok());
            self.heard = self.heard.max(claimed.map_or(0, u64::from_be_bytes));
        }
        Ok(())
    }

    /// For how long none of the workers that are there was heard of, if that is longer than it should be.
    pub(super) fn silence(&self) -> Option<String> {
        let is_late = self.heard > 0 && self.heard + WORKER_LATE < self.now;
        is_late.then(|| span(self.heard, self.now))
    }

    /// The workers that are there.
    pub(super) fn present(&self) -> impl Iterator<Item = &WorkerRow> {
        self.workers.iter().filter(|row| row.seen + WORKER_SEEN >= self.now)
    }

    /// The breakers for this queue that workers which are there say are not closed.
    pub(super) fn breakers(&self) -> Vec<Breaker> {
        let of = |row: &WorkerRow| {
            // A row is for eyes: one of another form says nothing of breakers.
            let told: HeldBack = serde_json::from_str(&row.text).ok()?;
            told.breakers?.remove(self.queue.as_str())
        };
        self.present().filter_map(of).collect()
    }

    /// When the last worker was seen.
    pub(super) fn last_seen(&self) -> Option<u64> {
        self.workers.iter().map(|row| row.seen).max()
    }

    /// What the holder of the lease calls itself, and when it was last seen.
    pub(super) fn holder(&self) -> Option<(String, u64)> {
        let session = self.found.as_ref()?.ticket.fence?.session()?;
        let row = self.workers.iter().find(|row| row.session == session)?;
        Some((worker_name(&row.text), row.seen))
    }

    /// Its place in line, and how long that may take.
    pub(super) fn line(&self) -> Line {
        let estimate = (self.ahead * 60).checked_div(self.ended_last_minute);
        Line {
            ahead: self.ahead,
            ended_last_minute: self.ended_last_minute,
            estimate_seconds: estimate.map(|seconds| seconds.min(LONGEST)),
        }
    }

    /// The request as a command line names it.
    pub(super) fn named(&self) -> String {
        format!("{} --queue {} --tenant {}", self.id, self.queue, self.tenant)
    }
}
