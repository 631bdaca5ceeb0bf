//! The server: version, eviction, persistence, memory, clock.

use std::time::{Duration, Instant};

use fred::types::Value;

use super::{Grade, Report};
use crate::{
    Redis, StoreError,
    redis::{Fault, ServerReport},
};

/// Clocks further apart than this, in ms, are told.
const SKEW: u64 = 1_000;

/// An answer that took longer says too little about the time.
const QUICK: Duration = Duration::from_millis(500);

/// Looks at the server.
pub(super) async fn look(redis: &Redis, report: &mut Report) -> Result<(), StoreError> {
    let server = ServerReport::read(redis).await?;
    for fault in server.faults() {
        let grade = match fault {
            Fault::TooOld(..) | Fault::EvictsAll(_) | Fault::ReadOnly => Grade::Fault,
            Fault::EvictsVolatile(_) | Fault::PersistenceOff | Fault::Unreadable => Grade::Warning,
        };
        report.add(grade, fault.word(), "redis", fault.to_string());
    }
    if server.append_written == Some(false) {
        let told = "the last write of the append-only file failed: what is accepted now is lost with a restart; look at its disk";
        report.add(Grade::Fault, "aof-write-failed", "redis", told);
    }
    if server.promoted == Some(true) {
        let told = "this primary was a replica once: what the former one had acknowledged and not sent on is forgotten";
        report.add(Grade::Note, "promoted", "redis", told);
    }
    memory(&server, report);
    clock(redis, report).await
}

fn memory(server: &ServerReport, report: &mut Report) {
    let Some((used, most)) = server.memory else { return };
    if most == 0 {
        let told = "maxmemory is not set: the machine's memory is the limit, and the system kills Redis there; set it with a reserve";
        report.add(Grade::Note, "memory-unlimited", "redis", told);
        return;
    }
    let percent = used.saturating_mul(100) / most;
    if percent >= 80 {
        let told = format!(
            "{percent} % of maxmemory is in use: at 100 % submits and redrives are refused; let the queues drain, shorten retention, or raise it"
        );
        let grade = if percent >= 100 { Grade::Fault } else { Grade::Warning };
        report.add(grade, "memory-reserve", "redis", told);
    }
}

async fn clock(redis: &Redis, report: &mut Report) -> Result<(), StoreError> {
    const CALL: &str = "time";
    let asked = Instant::now();
    let answer = redis.call("TIME", None, Vec::new()).await.map_err(|err| err.named(CALL));
    let Value::Array(parts) = answer? else { return Err(StoreError::Reply { call: CALL }) };
    let took = asked.elapsed();
    let part = |at: usize| -> Option<u64> {
        std::str::from_utf8(parts.get(at)?.as_bytes()?).ok()?.parse().ok()
    };
    let (Some(seconds), Some(micros)) = (part(0), part(1)) else {
        return Err(StoreError::Reply { call: CALL });
    };
    let there = seconds * 1000 + micros / 1000;
    let here = host_ms().saturating_sub(u64::try_from(took.as_millis() / 2).unwrap_or(0));
    let apart = there.abs_diff(here);
    if took <= QUICK && apart > SKEW {
        let ahead = if there > here { "ahead of" } else { "behind" };
        let told = format!(
            "its clock is {}.{:03} s {ahead} this machine's: deadlines of callers are meant by theirs and kept by its; see that all follow one",
            apart / 1000,
            apart % 1000
        );
        report.add(Grade::Warning, "clock-skew", "redis", told);
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this very clock is what is compared")]
fn host_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
