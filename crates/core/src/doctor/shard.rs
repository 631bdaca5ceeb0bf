//! The audit of a shard's keys while it runs.
//!
//! Tickets are gone through by SCAN, and each request is seen at one moment by the `audit` script. Then whatever a set or
//! a hash holds without a ticket that says so: a handle or a fence that has once left never comes back, so that what is
//! still there after its ticket said otherwise is left over.

mod counters;
mod judge;
mod scan;
mod types;

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Grade, Report};
use crate::{
    Redis, StoreError,
    keys::ShardKeys,
    model::{Fence, Handle, Key},
    plain,
    script::{Audit, Kept, MAX_ITEMS, Paper},
};

use scan::Scan;

const CALL: &str = "doctor";

/// What the requests of a shard take, by lane: how many live, and how many bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    lanes: BTreeMap<String, (u64, u64)>,
    bytes: u64,
}

/// What one pass over all tickets saw.
struct Pass {
    sums: Sums,
    requests: u64,
    highest: u64,
}

/// Looks at one shard.
pub(super) async fn audit(
    redis: &Redis,
    keys: &ShardKeys,
    report: &mut Report,
) -> Result<(), StoreError> {
    let place = keys.place();
    types::look(redis, keys, &place, report).await?;
    let before = report.findings.len();
    let still = counters::read(redis, keys).await?;
    let pass = pass(redis, keys, Some((&place, report))).await?;
    report.requests += pass.requests;
    counters::tell_spoiled(&still, &pass, &place, report);
    sequence(redis, keys, &place, pass.highest, report).await?;
    left_over(redis, keys, &place, report).await?;
    // Where something is lost, what is counted is wrong as well, and mended with it.
    if report.findings.len() == before {
        counters::judge(redis, keys, &place, (still, pass.sums), report).await?;
    }
    Ok(())
}

/// Goes through all tickets; tells what is wrong with each, if somebody listens.
async fn pass(
    redis: &Redis,
    keys: &ShardKeys,
    mut listener: Option<(&str, &mut Report)>,
) -> Result<Pass, StoreError> {
    let mut pass = Pass { sums: Sums::default(), requests: 0, highest: 0 };
    let mut scan = Scan::of_hash(&keys.ticket);
    while let Some(fields) = scan.next(redis).await? {
        for some in fields.chunks(MAX_ITEMS) {
            let names: Vec<Key> =
                some.iter().filter_map(|it| Key::try_from(it.as_ref()).ok()).collect();
            let strange = some.len() - names.len();
            if let (Some((place, report)), true) = (&mut listener, strange > 0) {
                let told =
                    "fields of the tickets are named by no key of ours: somebody else wrote them";
                report.add(Grade::Warning, "strange-field", *place, told);
            }
            for (key, kept) in names.iter().zip(look(redis, keys, &names).await?) {
                // Swept or redriven since.
                let Some(kept) = kept else { continue };
                pass.add(&kept);
                if let Some((place, report)) = &mut listener {
                    for (name, told) in judge::judge(&kept) {
                        report.add_one(Grade::Fault, name, *place, told, Some(key.to_string()));
                    }
                }
            }
        }
    }
    Ok(pass)
}

impl Pass {
    fn add(&mut self, kept: &Kept) {
        self.requests += 1;
        let held = kept.request + kept.result;
        self.sums.bytes += held;
        let Paper::Whole(ticket) = &kept.paper else { return };
        self.highest = self.highest.max(ticket.sequence);
        let tenant = ticket.identity.as_ref().map(|identity| identity.tenant.as_str());
        let lane = if ticket.lane.is_empty() { tenant } else { Some(ticket.lane.as_str()) };
        let Some(lane) = lane else { return };
        let live = kept.homes.iter().any(|(home, _)| !home.is_end());
        let sum = self.sums.lanes.entry(lane.to_owned()).or_default();
        *sum = (sum.0 + u64::from(live), sum.1 + held);
    }
}

async fn look(
    redis: &Redis,
    shard: &ShardKeys,
    keys: &[Key],
) -> Result<Vec<Option<Kept>>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    Audit { shard, keys }.run(redis).await
}

/// The counter of submissions only grows: read after the tickets, it is at least as high as theirs.
async fn sequence(
    redis: &Redis,
    keys: &ShardKeys,
    place: &str,
    highest: u64,
    report: &mut Report,
) -> Result<(), StoreError> {
    let meta = plain::named_fields(redis, CALL, &keys.meta, vec!["seq".into()]).await?;
    let counted = match meta.first().and_then(Option::as_ref) {
        None => Some(0),
        text => plain::digits(text),
    };
    // One that holds no number is told as such.
    if let Some(counted) = counted.filter(|counted| *counted < highest) {
        let told = format!(
            "the counter of submissions stands at {counted}, but a request has {highest}: Redis forgot its newest writes, as after a failover; \
             what was accepted or settled since may be lost or run again, and equal deadlines may change places"
        );
        report.add(Grade::Fault, "sequence-regress", place, told);
    }
    Ok(())
}

/// What sets and hashes hold that no ticket speaks of.
async fn left_over(
    redis: &Redis,
    keys: &ShardKeys,
    place: &str,
    report: &mut Report,
) -> Result<(), StoreError> {
    let sets =
        [&keys.pending, &keys.suspects, &keys.delayed, &keys.finished, &keys.dead, &keys.leased];
    for set in sets {
        let mut scan = Scan::of_set(set);
        while let Some(members) = scan.next(redis).await? {
            for some in members.chunks(MAX_ITEMS) {
                left_over_members(redis, keys, (set, place), some, report).await?;
            }
        }
    }
    for (hash, what) in [(&keys.request, "request"), (&keys.result, "record")] {
        let mut scan = Scan::of_names(hash);
        while let Some(fields) = scan.next(redis).await? {
            for some in fields.chunks(MAX_ITEMS) {
                let names: Vec<Key> =
                    some.iter().filter_map(|it| Key::try_from(it.as_ref()).ok()).collect();
                for (key, kept) in names.iter().zip(look(redis, keys, &names).await?) {
                    let is_lost = kept.is_some_and(|kept| kept.paper == Paper::Lost);
                    if is_lost {
                        let told = format!(
                            "a {what} is there without its ticket: Redis lost that, or somebody removed it"
                        );
                        report.add_one(
                            Grade::Fault,
                            "ticket-missing",
                            place,
                            told,
                            Some(key.to_string()),
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

async fn left_over_members(
    redis: &Redis,
    keys: &ShardKeys,
    (set, place): (&str, &str),
    members: &[Bytes],
    report: &mut Report,
) -> Result<(), StoreError> {
    let is_leased = set == keys.leased;
    let read = |member: &Bytes| {
        let (fence, handle) = match is_leased {
            true => Fence::split_member(member).map(|(fence, handle)| (Some(fence), handle))?,
            false => (None, Handle::try_from(member.as_ref()).ok()?),
        };
        Some((member.clone(), fence, handle))
    };
    let named: Vec<_> = members.iter().filter_map(read).collect();
    if named.len() < members.len() {
        let told = "members of a set are laid out in no way of ours: somebody else wrote them, and whatever comes to one may stop there, and the whole shard with it; remove them (ZREM)";
        for _ in named.len()..members.len() {
            report.add_one(Grade::Fault, "strange-member", place, told, Some(set.to_owned()));
        }
    }
    let of: Vec<Key> = named.iter().map(|(.., handle)| handle.key()).collect();
    for ((member, fence, handle), kept) in named.iter().zip(look(redis, keys, &of).await?) {
        let paper = kept.map_or(Paper::Lost, |kept| kept.paper);
        let says = match &paper {
            Paper::Whole(ticket) => {
                ticket.handle(handle.key()) == *handle
                    && (fence.is_none() || ticket.fence == *fence)
            }
            // Told with the tickets.
            Paper::Broken => true,
            Paper::Lost => false,
        };
        if says || plain::score(redis, CALL, set, member.clone()).await?.is_none() {
            continue;
        }
        let (name, told) = match (paper, is_leased) {
            (Paper::Lost, _) => (
                "ticket-missing",
                "a home holds a request without a ticket: whoever meets it ends it as unusable",
            ),
            (_, true) => (
                "stale-lease",
                "a lease is of no claim that its request knows: whoever meets it removes it",
            ),
            (_, false) => (
                "stale-member",
                "a home holds a handle that its request has left: whoever meets it removes it",
            ),
        };
        report.add_one(Grade::Fault, name, place, told, Some(handle.key().to_string()));
    }
    Ok(())
}
