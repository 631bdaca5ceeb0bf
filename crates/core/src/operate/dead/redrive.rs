//! Running dead letters again: counted first, at a bounded rate, from where somebody stopped, and never more than were
//! counted.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::{
    Cursor, DeadFilter, FilterFault, Walk,
    walk::{Batch, Letter, renamed},
};
use crate::{
    Redis, StoreError,
    error::Refusal,
    keys::ShardKeys,
    model::{Identity, RequestId, TenantName},
    operate::{ActError, Queue, Seconds, patiently, single::is_of},
    script::{Depth, Redrive, RedriveReply},
};

/// How many run again a second, unless somebody says otherwise.
const RATE: u32 = 100;
/// The most that may be said.
const MOST: u32 = 1000;
/// The most ids of one call.
const IDS: usize = 1000;

/// What is asked for. JSON refuses fields that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RedriveAsk {
    /// Which ones; with ids, of the filter's tenant, which then must be named.
    pub filter: DeadFilter,
    /// These ids only, at most 1000.
    pub ids: Vec<String>,
    /// Says that a filter which says nothing is meant.
    pub all: bool,
    /// Count only.
    pub dry_run: bool,
    /// How many were counted: no more than these run again.
    pub count: Option<u64>,
    /// When they were counted: what died later is not meant.
    pub as_of: Option<Seconds>,
    /// How many run again a second, 1 to 1000; 100 if nothing is said.
    pub rate: Option<u32>,
    /// Where an earlier call stopped.
    pub cursor: Option<String>,
}

/// What was found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Redriven {
    /// The queue.
    pub queue: String,
    /// `counted`, `done`, `more` (go on with the cursor), or `stopped` (`reason` says why; the cursor goes on).
    pub outcome: String,
    /// Why it stopped: `queue-full`, `store-full`, `store-read-only`, `store-denied`, `store-unreachable`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// How many matched, of those that were looked at.
    pub matched: u64,
    /// The same by outcome.
    pub by_outcome: BTreeMap<String, u64>,
    /// When they were counted.
    pub as_of: Seconds,
    /// How many run again.
    pub redriven: u64,
    /// How many were moved by somebody else meanwhile.
    pub gone: u64,
    /// How many lost their body: these cannot run again.
    pub bodyless: u64,
    /// How many have no time left to run in.
    pub late: u64,
    /// How many ids are no dead letter.
    pub not_dead: u64,
    /// Where to go on; none: all were looked at.
    pub cursor: Option<String>,
}

/// Counts what would run again.
pub async fn count(redis: &Redis, queue: &Queue, ask: &RedriveAsk) -> Result<Redriven, ActError> {
    check(ask)?;
    let first = ShardKeys::new(&queue.name, 0);
    let as_of = ask.as_of.map_or(Depth { shard: &first }.run(redis).await?.now, |at| at.0);
    let mut told = Redriven::new(queue, as_of);
    told.outcome = "counted".to_owned();
    let mut source = Source::new(redis, queue, ask)?;
    while let Some(batch) = source.next(&mut told).await? {
        for letter in batch.letters.iter().filter(|letter| is_meant(letter, ask, &batch, as_of)) {
            told.note(letter);
        }
    }
    Ok(told)
}

/// Runs them again, for about so long; `count` and `as_of` say what was confirmed.
pub async fn redrive(
    redis: &Redis,
    queue: &Queue,
    ask: &RedriveAsk,
    budget: Duration,
) -> Result<Redriven, ActError> {
    check(ask)?;
    let (Some(most), Some(as_of)) = (ask.count, ask.as_of) else {
        let rule = "must be what a dry run counted: count and as_of";
        return Err(FilterFault { field: "count", rule }.into());
    };
    let rate = ask.rate.unwrap_or(RATE).clamp(1, MOST);
    let mut told = Redriven::new(queue, as_of.0);
    told.cursor.clone_from(&ask.cursor);
    let mut source = Source::new(redis, queue, ask)?;
    let until = Instant::now() + budget;
    loop {
        let batch = match source.next(&mut told).await {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(err) => return Ok(told.stopped(reason(&err))),
        };
        let mut rest = batch.letters.as_slice();
        while !rest.is_empty() {
            let room = most.saturating_sub(told.redriven);
            if room == 0 {
                return Ok(told.done());
            }
            // About four calls a second; what does not match costs no time.
            let size = (rate as usize / 4).clamp(1, 64).min(rest.len());
            let (some, later) = rest.split_at(size.min(usize::try_from(room).unwrap_or(size)));
            rest = later;
            let meant = some.iter().filter(|letter| is_meant(letter, ask, &batch, as_of.0));
            let meant: Vec<&Letter> = meant.collect();
            if !meant.is_empty() {
                let started = Instant::now();
                if let Err(reason) = told.run(redis, &batch.shard, &meant).await {
                    return Ok(told.stopped(reason));
                }
                let share = Duration::from_secs(1) * meant.len() as u32 / rate;
                sleep(share.saturating_sub(started.elapsed())).await;
            }
            told.cursor = some.last().map(|letter| source.behind(letter));
            if Instant::now() >= until {
                told.outcome = "more".to_owned();
                return Ok(told);
            }
        }
    }
    Ok(told.done())
}

fn check(ask: &RedriveAsk) -> Result<(), FilterFault> {
    ask.filter.check()?;
    let fault = |field, rule| Err(FilterFault { field, rule });
    if ask.ids.is_empty() && ask.filter.is_empty() && !ask.all {
        return fault("filter", "must say which dead letters are meant, or all must be true");
    }
    if !ask.ids.is_empty() && ask.filter.tenant.is_none() {
        return fault("tenant", "must be named where ids are");
    }
    if ask.ids.len() > IDS {
        return fault("ids", "must be at most 1000");
    }
    let is_id = |id: &String| RequestId::try_from(id.as_str()).is_ok();
    if !ask.ids.iter().all(is_id) {
        return fault("ids", "must have 1 to 1024 bytes each");
    }
    if ask.rate.is_some_and(|rate| !(1..=MOST).contains(&rate)) {
        return fault("rate", "must be from 1 to 1000 a second");
    }
    Ok(())
}

fn is_meant(letter: &Letter, ask: &RedriveAsk, batch: &Batch, as_of: u64) -> bool {
    let in_time = letter.row.ended_at.is_some_and(|at| at.0 <= as_of);
    in_time && ask.filter.takes(&letter.row, batch.now)
}

fn reason(err: &StoreError) -> &'static str {
    match err.refusal() {
        Some(Refusal::OutOfMemory) => "store-full",
        Some(Refusal::ReadOnly) => "store-read-only",
        Some(Refusal::Denied) => "store-denied",
        _ => "store-unreachable",
    }
}

/// Where letters come from: a walk over all, or ids one by one.
enum Source<'a> {
    All(Walk<'a>),
    Ids { redis: &'a Redis, queue: &'a Queue, tenant: TenantName, ids: &'a [String], at: usize },
}

impl<'a> Source<'a> {
    fn new(redis: &'a Redis, queue: &'a Queue, ask: &'a RedriveAsk) -> Result<Self, FilterFault> {
        let tenant = ask.filter.tenant.as_deref().map(TenantName::try_from);
        let fault =
            FilterFault { field: "cursor", rule: "must be one that a call for these ids gave" };
        match (ask.ids.is_empty(), tenant) {
            (false, Some(Ok(tenant))) => {
                let at = ask.cursor.as_deref().map_or(Ok(0), str::parse).map_err(|_| fault)?;
                Ok(Self::Ids { redis, queue, tenant, ids: &ask.ids, at })
            }
            _ => {
                let cursor = Cursor::parse(ask.cursor.as_deref(), queue)?;
                Ok(Self::All(Walk::new(redis, queue, cursor)))
            }
        }
    }

    /// The next ones; none: that was all.
    async fn next(&mut self, told: &mut Redriven) -> Result<Option<Batch>, StoreError> {
        match self {
            Self::All(walk) => walk.next().await,
            Self::Ids { redis, queue, tenant, ids, at } => {
                while let Some(id) = ids.get(*at) {
                    *at += 1;
                    let Ok(id) = RequestId::try_from(id.as_str()) else { continue };
                    let identity = Identity { tenant: tenant.clone(), id };
                    match one(redis, queue, &identity).await? {
                        Some(batch) => return Ok(Some(batch)),
                        None => told.not_dead += 1,
                    }
                }
                Ok(None)
            }
        }
    }

    /// Where to go on behind a letter.
    fn behind(&self, letter: &Letter) -> String {
        match self {
            Self::All(_) => letter.cursor.to_string(),
            Self::Ids { at, .. } => at.to_string(),
        }
    }
}

/// The dead letter of one id, if it is one.
async fn one(
    redis: &Redis,
    queue: &Queue,
    identity: &Identity,
) -> Result<Option<Batch>, StoreError> {
    let (shard, key) = queue.place(identity);
    let found = super::look(redis, &shard, key).await?.filter(|found| is_of(found, identity));
    let Some(found) = found.filter(|it| it.home == Some(crate::model::Home::Dead)) else {
        return Ok(None);
    };
    let handle = found.ticket.handle(key);
    let row = super::DeadRow::of(&shard, handle, found.score, Some(&found));
    let letters = vec![Letter { handle, row, cursor: Cursor::start() }];
    Ok(Some(Batch { shard, letters, unreadable: 0, now: found.now }))
}

impl Redriven {
    fn new(queue: &Queue, as_of: u64) -> Self {
        Self { queue: queue.name.to_string(), as_of: Seconds(as_of), ..Self::default() }
    }

    fn note(&mut self, letter: &Letter) {
        self.matched += 1;
        let outcome = letter.row.outcome.clone().unwrap_or_else(|| "lost".to_owned());
        *self.by_outcome.entry(outcome).or_default() += 1;
    }

    /// Runs some of one shard again; or says why it must stop.
    async fn run(
        &mut self,
        redis: &Redis,
        shard: &ShardKeys,
        letters: &[&Letter],
    ) -> Result<(), &'static str> {
        let items: Vec<_> = letters.iter().map(|letter| renamed(letter)).collect();
        let call = Redrive { shard, items: &items, deadline: None };
        let done = patiently(|| call.run(redis)).await;
        let (replies, _) = done.map_err(|err| reason(&err))?;
        let mut is_full = false;
        for (letter, reply) in letters.iter().zip(replies) {
            match reply {
                // Already: an unanswered copy of this very call.
                RedriveReply::Redriven(_) | RedriveReply::Already(_) => self.redriven += 1,
                RedriveReply::Gone => self.gone += 1,
                RedriveReply::Bodyless => self.bodyless += 1,
                RedriveReply::Late => self.late += 1,
                RedriveReply::Full => {
                    is_full = true;
                    continue;
                }
            }
            self.note(letter);
        }
        if is_full { Err("queue-full") } else { Ok(()) }
    }

    fn done(mut self) -> Self {
        self.outcome = "done".to_owned();
        self.cursor = None;
        self
    }

    fn stopped(mut self, reason: &str) -> Self {
        self.outcome = "stopped".to_owned();
        self.reason = Some(reason.to_owned());
        self
    }
}
