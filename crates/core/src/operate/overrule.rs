//! Pause, resume and limit of a whole queue: decided in shard 0 by compare-and-set, then taken by the others.

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::{ActError, Queue, patiently};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    plain,
    script::{Depth, Override, Overrule, OverruleMode, OverruleReply},
};

/// An override as a shard has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Said<T> {
    /// What it says.
    pub value: T,
    /// Its version; 0: nobody has ever said anything.
    pub version: u64,
}

/// What operators say of a queue over its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overrides {
    /// Whether its claims are stopped.
    pub paused: Said<bool>,
    /// How many may be in flight over all workers; none: as the settings say.
    pub limit: Said<Option<u64>>,
}

/// What was said, and what it meets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overruled {
    /// The queue.
    pub queue: String,
    /// `pause`, `resume` or `limit`.
    pub action: String,
    /// `set`, `already`, or `dry-run`: nothing was written.
    pub outcome: String,
    /// As it was.
    pub before: Overrides,
    /// As it is now; of a dry run as it would be.
    pub after: Overrides,
    /// How many shards took it just now.
    pub shards_changed: u32,
    /// How many could be claimed, as far as they can be counted.
    pub pending: u64,
    /// How many are with workers, as far as they can be counted. A pause lets them end.
    pub leased: u64,
}

/// What operators have said of a queue: the word of shard 0.
pub async fn overrides(redis: &Redis, queue: &Queue) -> Result<Overrides, StoreError> {
    read(redis, &ShardKeys::new(&queue.name, 0)).await
}

/// What a shard has heard.
pub(crate) async fn read(redis: &Redis, shard: &ShardKeys) -> Result<Overrides, StoreError> {
    let names = ["paused", "paused_version", "limit_total", "limit_version"];
    let names = names.map(Into::into).to_vec();
    let values = plain::named_fields(redis, "overrides", &shard.meta, names).await?;
    let number = |at: usize| plain::digits(values.get(at).and_then(Option::as_ref));
    Ok(Overrides {
        paused: Said { value: number(0) == Some(1), version: number(1).unwrap_or(0) },
        limit: Said { value: number(2), version: number(3).unwrap_or(0) },
    })
}

/// Says it to the whole queue. `seen`: the version that the operator knows; none: the one that is there now.
///
/// What is there already is spread again, so that a shard which missed it hears of it; and where shard 0 has lost a word that
/// others still have, they are made even first, or they would take no word of it any more.
pub async fn overrule(
    redis: &Redis,
    queue: &Queue,
    word: Override,
    seen: Option<u64>,
    dry_run: bool,
) -> Result<Overruled, ActError> {
    let shards = queue.keys();
    if !dry_run {
        remind(redis, queue).await?;
    }
    let before = overrides(redis, queue).await?;
    let (held, is_said) = match word {
        Override::Paused(paused) => (before.paused.version, before.paused.value == paused),
        Override::Limit(limit) => (before.limit.version, before.limit.value == limit),
    };
    if let Override::Limit(Some(limit)) = word
        && limit < u64::from(queue.shards.get())
    {
        return Err(ActError::TooSmall { least: queue.shards.get().into() });
    }
    // Who says again what it said before names the version that it knew then.
    let is_again = |seen: u64| is_said && seen.checked_add(1) == Some(held);
    if seen.is_some_and(|seen| seen != held && !is_again(seen)) {
        return Err(ActError::Overtaken { version: held });
    }
    let mut report = Overruled {
        queue: queue.name.to_string(),
        action: action(word).to_owned(),
        outcome: if is_said { "already" } else { "set" }.to_owned(),
        before,
        after: before,
        shards_changed: 0,
        pending: 0,
        leased: 0,
    };
    // It is told beside: neither what somebody else wrote into a set nor a shard that is away keeps anybody from pausing, and
    // shards that don't answer are waited for at once.
    let depths = shards.iter().map(async |shard| (Depth { shard }).run(redis).await);
    for depth in join_all(depths).await.into_iter().flatten() {
        report.pending += depth.pending + depth.suspects;
        report.leased += depth.leased;
    }
    if dry_run {
        report.outcome = "dry-run".to_owned();
        report.after = with(before, word, if is_said { held } else { held + 1 });
        return Ok(report);
    }
    let version =
        if is_said { held } else { decide(redis, queue, word, held, &mut report).await? };
    // Nobody ever said anything, and that is what is wanted.
    if version > 0 {
        let (heard, failed) = spread(redis, queue, word, version).await;
        report.shards_changed += heard;
        let unheard = u32::try_from(failed.len()).unwrap_or(u32::MAX);
        if let Some(source) = failed.into_iter().next() {
            let changed = report.shards_changed;
            return Err(ActError::Unheard { version, changed, unheard, source });
        }
    }
    report.after = with(before, word, version);
    Ok(report)
}

/// Has shard 0 decide; gives the version that it has then.
async fn decide(
    redis: &Redis,
    queue: &Queue,
    word: Override,
    seen: u64,
    report: &mut Overruled,
) -> Result<u64, ActError> {
    let first = ShardKeys::new(&queue.name, 0);
    let mode = OverruleMode::Decide;
    let call = Overrule { shard: &first, shards: queue.shards, word, mode, version: seen };
    match patiently(|| call.run(redis)).await?.0 {
        OverruleReply::Set(version) | OverruleReply::Already(version) => {
            report.shards_changed += 1;
            Ok(version)
        }
        OverruleReply::Newer(version) => Err(ActError::Overtaken { version }),
    }
}

/// Has the other shards take what shard 0 says: all at once, so that none waits for one that does not answer. Gives how many
/// had not heard of it, and what those said that did not hear it now.
async fn spread(
    redis: &Redis,
    queue: &Queue,
    word: Override,
    version: u64,
) -> (u32, Vec<StoreError>) {
    let shards: Vec<ShardKeys> = queue.keys().into_iter().skip(1).collect();
    let takes = shards.iter().map(async |shard| {
        let mode = OverruleMode::Take;
        let call = Overrule { shard, shards: queue.shards, word, mode, version };
        patiently(|| call.run(redis)).await
    });
    let (mut changed, mut failed) = (0, Vec::new());
    for taken in join_all(takes).await {
        match taken {
            Ok((reply, _)) => changed += u32::from(matches!(reply, OverruleReply::Set(_))),
            Err(err) => failed.push(err),
        }
    }
    (changed, failed)
}

/// Carries on the newest word of any shard to those that have not heard of it: whoever spread it may have died half-way, and
/// shard 0 may have lost it, with its node or by somebody's hand. Gives how many words were taken; the first error of a shard
/// keeps no other from hearing.
pub async fn carry_on(redis: &Redis, queue: &Queue) -> Result<u32, StoreError> {
    if queue.shards.get() == 1 {
        return Ok(0);
    }
    let Heard { newest, by, mut failed } = heard(redis, queue).await?;
    let mut changed = 0;
    for (shard, said) in by {
        match carry_to(redis, queue, (&shard, said), newest).await {
            Ok(words) => changed += words,
            Err(err @ StoreError::Unanswered { .. }) => return Err(err),
            Err(err) => failed = failed.or(Some(err)),
        }
    }
    failed.map_or(Ok(changed), Err)
}

/// Has shard 0 take what it has lost and others still say.
async fn remind(redis: &Redis, queue: &Queue) -> Result<(), StoreError> {
    // What can't be read now says nothing; whether it hears is told by what follows.
    let Ok(Heard { newest, by, .. }) = heard(redis, queue).await else { return Ok(()) };
    match by.into_iter().find(|(shard, _)| shard.shard == 0) {
        Some((first, said)) => carry_to(redis, queue, (&first, said), newest).await.map(drop),
        None => Ok(()),
    }
}

/// What the shards of a queue have heard.
struct Heard {
    /// Of each word the latest.
    newest: Overrides,
    /// Each that could be read.
    by: Vec<(ShardKeys, Overrides)>,
    /// Why another could not.
    failed: Option<StoreError>,
}

async fn heard(redis: &Redis, queue: &Queue) -> Result<Heard, StoreError> {
    let mut heard = Heard { newest: Overrides::default(), by: Vec::new(), failed: None };
    for shard in queue.keys() {
        match read(redis, &shard).await {
            Ok(said) => {
                heard.newest = later(heard.newest, said);
                heard.by.push((shard, said));
            }
            // Of a Redis that does not answer, the others need not be asked.
            Err(err @ StoreError::Unanswered { .. }) => return Err(err),
            Err(err) => heard.failed = heard.failed.or(Some(err)),
        }
    }
    Ok(heard)
}

/// Of each word the later one; of two under one version that of the shard which comes first.
fn later(one: Overrides, other: Overrides) -> Overrides {
    Overrides {
        paused: if other.paused.version > one.paused.version { other.paused } else { one.paused },
        limit: if other.limit.version > one.limit.version { other.limit } else { one.limit },
    }
}

async fn carry_to(
    redis: &Redis,
    queue: &Queue,
    (shard, heard): (&ShardKeys, Overrides),
    said: Overrides,
) -> Result<u32, StoreError> {
    let words = [
        (said.paused.version, heard.paused.version, Override::Paused(said.paused.value)),
        (said.limit.version, heard.limit.version, Override::Limit(said.limit.value)),
    ];
    let mut changed = 0;
    for (version, heard, word) in words {
        if heard < version {
            let mode = OverruleMode::Take;
            let call = Overrule { shard, shards: queue.shards, word, mode, version };
            changed += u32::from(matches!(call.run(redis).await?, OverruleReply::Set(_)));
        }
    }
    Ok(changed)
}

fn action(word: Override) -> &'static str {
    match word {
        Override::Paused(true) => "pause",
        Override::Paused(false) => "resume",
        Override::Limit(_) => "limit",
    }
}

fn with(mut overrides: Overrides, word: Override, version: u64) -> Overrides {
    match word {
        Override::Paused(value) => overrides.paused = Said { value, version },
        Override::Limit(value) => overrides.limit = Said { value, version },
    }
    overrides
}
