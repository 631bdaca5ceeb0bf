//! The counters of bytes and lanes. They can be counted anew only while nothing is submitted, ends or is swept: then
//! neither the counter of submissions nor one of these moves, and what was counted between two such looks is exact.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{CALL, Grade, Pass, Report, Sums, pass};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    plain::{self, Ask},
};

/// How often it is tried to find a shard still.
const TRIES: usize = 3;

/// The counters as they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counters {
    seq: i64,
    bytes: i64,
    lanes: BTreeMap<String, i64>,
    /// Those that somebody has spoiled, by the names of their fields: they hold no number.
    spoiled: Vec<String>,
}

/// Reads them.
pub(super) async fn read(redis: &Redis, keys: &ShardKeys) -> Result<Counters, StoreError> {
    let names = ["seq", "bytes"].map(Into::into).to_vec();
    let meta = plain::named_fields(redis, CALL, &keys.meta, names).await?;
    let mut spoiled = Vec::new();
    // What is not there counts nothing yet.
    let mut number = |name: &str, text: Option<&Bytes>| -> i64 {
        let Some(text) = text else { return 0 };
        let number = std::str::from_utf8(text).ok().and_then(|it| it.parse().ok());
        number.unwrap_or_else(|| {
            spoiled.push(name.to_owned());
            0
        })
    };
    let seq = number("seq", meta.first().and_then(Option::as_ref));
    let bytes = number("bytes", meta.get(1).and_then(Option::as_ref));
    let ask = Ask { call: CALL, command: "HGETALL", key: &keys.lanes, words: Vec::new() };
    let parts = match ask.value(redis).await? {
        fred::types::Value::Array(parts) => parts,
        fred::types::Value::Map(map) => {
            map.inner().into_iter().flat_map(|(name, value)| [name.into(), value]).collect()
        }
        _ => Vec::new(),
    };
    let (pairs, _) = parts.as_chunks::<2>();
    let mut lanes = BTreeMap::new();
    for [name, value] in pairs {
        let Some(name) = plain::bytes(name.clone()) else { continue };
        let name = String::from_utf8_lossy(&name).into_owned();
        let counted = number(&name, plain::bytes(value.clone()).as_ref());
        // What a lane has used of its rate is no count of what is there.
        if name.starts_with(['n', 'b']) {
            lanes.insert(name, counted);
        }
    }
    Ok(Counters { seq, bytes, lanes, spoiled })
}

/// Tells of those that hold no number.
pub(super) fn tell_spoiled(counters: &Counters, pass: &Pass, place: &str, report: &mut Report) {
    let Some(first) = counters.spoiled.first() else { return };
    let told = format!(
        "{} of its counters, {first} for one, hold no number: nothing new is taken in by them until somebody sets them to what is there ({} bytes in all; seq to {} or more)",
        counters.spoiled.len(),
        pass.sums.bytes,
        pass.highest
    );
    report.add(Grade::Fault, "spoiled-counter", place, told);
}

/// Compares them with what was counted, once nothing moved between.
pub(super) async fn judge(
    redis: &Redis,
    keys: &ShardKeys,
    place: &str,
    (mut before, mut sums): (Counters, Sums),
    report: &mut Report,
) -> Result<(), StoreError> {
    for _ in 0..TRIES {
        let after = read(redis, keys).await?;
        if after == before {
            tell(&after, &sums, place, report);
            return Ok(());
        }
        before = read(redis, keys).await?;
        sums = pass(redis, keys, None).await?.sums;
    }
    let told = "too much happens to count its bytes and lanes anew; look again when it is quieter";
    report.add(Grade::Note, "counters-not-judged", place, told);
    Ok(())
}

fn tell(counters: &Counters, sums: &Sums, place: &str, report: &mut Report) {
    let Counters { bytes, lanes, .. } = counters;
    if i128::from(*bytes) != i128::from(sums.bytes) {
        let told = format!(
            "the counter of bytes says {bytes}, and what is there takes {}: the queue is full too soon or too late",
            sums.bytes
        );
        report.add(Grade::Fault, "bytes-counter", place, told);
    }
    let mut counted: BTreeMap<String, i64> = BTreeMap::new();
    for (lane, (requests, held)) in &sums.lanes {
        for (name, number) in [("n", requests), ("b", held)] {
            if *number > 0 {
                counted
                    .insert(format!("{name}|{lane}"), i64::try_from(*number).unwrap_or(i64::MAX));
            }
        }
    }
    let differs =
        |name: &&String| lanes.get(*name).unwrap_or(&0) != counted.get(*name).unwrap_or(&0);
    let wrong: Vec<&String> = lanes.keys().chain(counted.keys()).filter(differs).collect();
    if let Some(first) = wrong.first() {
        let told = format!(
            "the counters of its lanes are not what is there, {first} for one: limits of tenants are met too soon or too late"
        );
        report.add(Grade::Fault, "lane-counter", place, told);
    }
}
