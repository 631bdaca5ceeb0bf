//! Judges every request by what its client and the gateway wrote down. Shares no code with the services.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_testkit::stand_in::{Arrival, How};

use crate::faults::{Fault, Kind};
use crate::ledger::{At, Forgotten, Ledger, Record, Story, Told};

/// What came of a leg.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Ids that were kept, and not forgotten by Redis.
    pub(crate) accepted: u64,
    /// Ids that were refused to the end, or of which nobody knows.
    pub(crate) refused: u64,
    /// Records by outcome.
    pub(crate) ends: BTreeMap<String, u64>,
    pub(crate) arrivals: u64,
    /// Arrivals beyond the first of their id.
    pub(crate) repeated: u64,
    /// Acknowledged, and unknown to Redis after a restart.
    pub(crate) forgotten: u64,
    /// Such that may be of these: sent before a restart that forgets, and told after it.
    pub(crate) told_late: u64,
    /// Records that were read, whose requests lived again after a restart.
    pub(crate) ends_forgotten: u64,
    /// Of those, such that ended otherwise the second time.
    pub(crate) ended_otherwise: u64,
    /// Kept, not forgotten, and without a record.
    pub(crate) lost: u64,
    /// Two readings of one generation that differ, although Redis forgot nothing of it.
    pub(crate) second_records: u64,
    /// All that must not be.
    pub(crate) violations: Vec<String>,
}

/// The id that a body carries.
pub(crate) fn id_in(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, content) = text.split_once("\"content\":\"")?;
    content.split_once(' ').map(|(id, _)| id.to_owned())
}

/// Judges all of it.
pub(crate) fn judge(ledger: &Ledger, arrivals: &[Arrival], faults: &[Fault]) -> Verdict {
    let mut verdict = Verdict { arrivals: arrivals.len() as u64, ..Verdict::default() };
    let mut by_id: BTreeMap<String, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        match id_in(&arrival.body) {
            Some(id) => by_id.entry(id).or_default().push(arrival),
            None => {
                verdict.violations.push(format!("arrival {} has no id of ours", arrival.number))
            }
        }
    }
    let forgotten = ledger.forgotten();
    verdict.forgotten = forgotten.requests.len() as u64;
    verdict.ends_forgotten = forgotten.ends.len() as u64;
    verdict.violations.extend(ledger.crossed());
    let stories = ledger.stories();
    for (id, story) in &stories {
        let arrivals = by_id.remove(id).unwrap_or_default();
        verdict.repeated += (arrivals.len() as u64).saturating_sub(1);
        let case = Case { id, story, arrivals: &arrivals, faults, forgotten: &forgotten };
        case.judge(&mut verdict);
    }
    for (id, arrivals) in by_id {
        verdict
            .violations
            .push(format!("{id} arrived {} times, and no client sent it", arrivals.len()));
    }
    verdict
}

/// One request, and all that is known of it.
struct Case<'a> {
    id: &'a str,
    story: &'a Story,
    arrivals: &'a [&'a Arrival],
    faults: &'a [Fault],
    forgotten: &'a Forgotten,
}

impl Case<'_> {
    fn judge(&self, verdict: &mut Verdict) {
        let Self { id, story, .. } = self;
        let known: Vec<&str> =
            story.kept().into_iter().filter(|it| !self.forgotten.requests.contains(*it)).collect();
        let generation = match known[..] {
            [] if story.is_kept() => return,
            [] => {
                verdict.refused += 1;
                if !story.is_unclear() && !self.arrivals.is_empty() {
                    verdict.violations.push(format!("{id} was refused each time, and arrived"));
                }
                return;
            }
            [generation] => generation,
            _ => {
                verdict.violations.push(format!("{id} was kept as {known:?}"));
                return;
            }
        };
        verdict.accepted += 1;
        let records: Vec<_> =
            story.read.iter().filter(|(_, it)| it.generation == generation).collect();
        let Some((at, last)) = records.last() else {
            if self.is_told_late(generation) {
                verdict.told_late += 1;
                verdict.accepted -= 1;
                return;
            }
            verdict.lost += 1;
            let told = &story.told;
            let meanwhile: Vec<_> = self.meanwhile(story.sent).collect();
            verdict.violations.push(format!(
                "{id} ({generation}) is lost: sent {:?}, told {told:?}, missed {}, read {:?}, {} arrivals; {meanwhile:?}",
                story.sent,
                story.missed,
                story.read.iter().map(|(at, it)| (at, &it.generation, self::told(it))).collect::<Vec<_>>(),
                self.arrivals.len(),
            ));
            return;
        };
        if story.missed {
            verdict.violations.push(format!("{id} ({generation}) was missing for a reader"));
        }
        *verdict.ends.entry(last.outcome.clone()).or_default() += 1;
        if records.iter().any(|(_, it)| it != last) {
            if self.forgotten.ends.contains(generation) {
                verdict.ended_otherwise += 1;
            } else {
                verdict.second_records += 1;
                let told: Vec<_> = records.iter().map(|(at, it)| (at, told(it))).collect();
                verdict.violations.push(format!("{id} ({generation}) has two records: {told:?}"));
            }
        }
        if let Err(why) = self.explains(*at, last) {
            verdict.violations.push(format!("{id} ({generation}): {why}"));
        }
    }

    /// What went wrong around a moment.
    fn meanwhile(&self, at: At) -> impl Iterator<Item = (Kind, At, At)> {
        let near = Duration::from_secs(5);
        let faults =
            self.faults.iter().filter(move |it| it.from < at + near && at < it.till + near);
        faults.map(|it| (it.kind, it.from, it.till))
    }

    /// Whether its client was told only after Redis had forgotten what it may have acknowledged before.
    fn is_told_late(&self, generation: &str) -> bool {
        let is_it = |told: &Told| matches!(told, Told::Kept(kept) if kept == generation);
        let told = self.story.told.iter().find(|(_, told)| is_it(told));
        let Some((told_at, _)) = told else { return false };
        self.forgotten.looks.iter().any(|look| self.story.sent < *look && look < told_at)
    }

    /// Whether the record is an answer that the gateway gave, or an end that the ledger explains.
    fn explains(&self, at: At, record: &Record) -> Result<(), String> {
        let Self { story, arrivals, faults, .. } = self;
        let is_explained = match record.outcome.as_str() {
            "answered" => arrivals.iter().filter_map(|it| it.end.as_ref()).any(|end| {
                end.how == How::Given
                    && end.status == record.status
                    && end.answer[..] == record.body[..]
            }),
            "cancelled" => story.cancel_asked,
            "deadline-exceeded" => at >= story.sent + story.timeout,
            "gave-up" => arrivals.iter().any(|it| {
                it.end.as_ref().is_none_or(|end| end.how != How::Given || end.status != Some(200))
            }),
            "killed-workers" => {
                let took = |it: &&Fault| {
                    let kinds = [
                        Kind::WorkerKilled,
                        Kind::WorkerFrozen,
                        Kind::ReclaimerKilled,
                        Kind::BlackHole,
                        Kind::RedisKilled,
                    ];
                    kinds.contains(&it.kind) && it.till >= story.sent && it.from <= at
                };
                faults.iter().filter(took).count() >= 5
            }
            _ => false,
        };
        if is_explained {
            return Ok(());
        }
        let ends: Vec<_> = arrivals
            .iter()
            .map(|it| it.end.as_ref().map(|end| (end.how, end.status, end.answer.len())))
            .collect();
        Err(format!("nothing explains {}; arrivals: {ends:?}", told(record)))
    }
}

/// A record, for a reader.
fn told(record: &Record) -> String {
    format!("{} {:?} {} B", record.outcome, record.status, record.body.len())
}
