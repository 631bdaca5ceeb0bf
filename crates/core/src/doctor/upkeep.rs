//! Whether somebody works on a queue and looks after it, and whether what Redis knows of it is whole.

use std::time::Duration;

use tokio::time::sleep;

use super::{Grade, Report};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::SCHEMA,
    operate::{Overrides, Queue, WORKER_SEEN, shard_overrides},
    plain,
    script::{Depth, registered_workers},
};

const CALL: &str = "doctor";

/// Whatever upkeep has to do is done by then, in ms, however busy it is.
const PATIENCE: u64 = 10_000;

/// How long an operator's word may take from shard to shard.
const SPREADING: Duration = Duration::from_secs(2);

/// Looks whether workers are there.
pub(super) async fn look_at_workers(redis: &Redis, report: &mut Report) -> Result<(), StoreError> {
    let workers = registered_workers(redis).await?;
    let newest = workers.iter().map(|row| row.seen).max();
    let now = server_ms(redis).await?;
    if newest.is_none_or(|seen| seen + WORKER_SEEN < now) {
        let told = "no worker has said for two minutes that it is there: nothing is dispatched";
        report.add(Grade::Warning, "no-worker", "redis", told);
    }
    Ok(())
}

/// Looks at one queue.
pub(super) async fn look(
    redis: &Redis,
    queue: &Queue,
    report: &mut Report,
) -> Result<(), StoreError> {
    let spread = look_at_words(redis, queue, report).await;
    report.go_on(&queue.name, spread)?;
    for keys in &queue.keys() {
        let looked = look_at_shard(redis, keys, report).await;
        report.go_on(keys.place(), looked)?;
    }
    Ok(())
}

async fn look_at_words(
    redis: &Redis,
    queue: &Queue,
    report: &mut Report,
) -> Result<(), StoreError> {
    let first = overrides(redis, queue).await?;
    if is_uneven(&first) {
        sleep(SPREADING).await;
        let second = overrides(redis, queue).await?;
        // A word that was said meanwhile is still on its way.
        if is_uneven(&second) && first.first() == second.first() {
            let told = "its shards know different words of operators: whoever spread the last one did not come to the end; say it again, or see that a reclaimer runs";
            report.add(Grade::Fault, "override-uneven", &queue.name, told);
        }
    }
    Ok(())
}

async fn look_at_shard(
    redis: &Redis,
    keys: &ShardKeys,
    report: &mut Report,
) -> Result<(), StoreError> {
    let place = keys.place();
    let names = ["schema", "capacity", "longest_lease", "beat"];
    let names = names.map(Into::into).to_vec();
    let meta = plain::named_fields(redis, CALL, &keys.meta, names).await?;
    let number = |at: usize| plain::digits(meta.get(at).and_then(Option::as_ref));
    match number(0) {
        Some(schema) if schema > SCHEMA.into() => {
            let told = format!(
                "its keys are of schema {schema}, which this version does not know: use a newer one"
            );
            report.add(Grade::Fault, "newer-schema", &place, told);
        }
        _ if number(1).is_none() => {
            let told = "its policy is missing: submits are refused until a producer or worker that has the queue writes it again, within a minute";
            report.add(Grade::Fault, "policy-missing", &place, told);
        }
        _ => {}
    }
    let now = Depth { shard: keys }.run(redis).await?.now;
    let longest = number(2).unwrap_or(0);
    if number(3).is_some_and(|beat| beat > now + 1_000) {
        let told =
            "somebody was heard there at a time that is yet to come: the clock of Redis went back";
        report.add(Grade::Warning, "clock-went-back", &place, told);
    }
    // A pass comes at least three times a lease.
    let patience = PATIENCE + longest / 3;
    let waits = [
        (&keys.leased, "lapsed-lease", "a lease lapsed, and nobody took it back", patience),
        (&keys.delayed, "nobody-promotes", "a request is due, and nobody moved it", patience),
        (
            &keys.pending,
            "nobody-expires",
            "a deadline passed, and nobody ended the request",
            patience,
        ),
        (
            &keys.finished,
            "nobody-sweeps",
            "a retention is over, and nobody swept the record",
            patience,
        ),
    ];
    for (set, name, what, patience) in waits {
        let head = plain::members(redis, CALL, set, 0, 1).await?;
        let Some((_, score)) = head.first() else { continue };
        if score.saturating_add(patience) < now {
            let told = format!(
                "{what} for {} s: see that a reclaimer runs and has this queue (after a leap of Redis' clock it ends and sweeps nothing for 10 minutes)",
                (now - score) / 1000
            );
            let grade = if name == "lapsed-lease" { Grade::Fault } else { Grade::Warning };
            report.add(grade, name, &place, told);
        }
    }
    Ok(())
}

async fn overrides(redis: &Redis, queue: &Queue) -> Result<Vec<Overrides>, StoreError> {
    let mut all = Vec::new();
    for keys in &queue.keys() {
        all.push(shard_overrides(redis, keys).await?);
    }
    Ok(all)
}

fn is_uneven(all: &[Overrides]) -> bool {
    let versions = |it: &Overrides| (it.paused.version, it.limit.version);
    all.iter().any(|it| all.first().is_some_and(|first| versions(first) != versions(it)))
}

/// The server's clock, in ms.
async fn server_ms(redis: &Redis) -> Result<u64, StoreError> {
    let answer = redis.call("TIME", None, Vec::new()).await.map_err(|err| err.named(CALL))?;
    let fred::types::Value::Array(parts) = answer else {
        return Err(StoreError::Reply { call: CALL });
    };
    let part = |at: usize| -> Option<u64> {
        std::str::from_utf8(parts.get(at)?.as_bytes()?).ok()?.parse().ok()
    };
    Ok(part(0).unwrap_or(0) * 1000 + part(1).unwrap_or(0) / 1000)
}
