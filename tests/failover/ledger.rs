//! What callers were told, and what arrived at the gateway: nothing else is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use holdfast_testkit::http::Answer;
use holdfast_testkit::stand_in::Arrival;
use serde_json::Value;

/// Everything of one run.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<String, Entry>>);

/// What was told of one id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// When a caller began to send it, and was told that it is there.
    pub(crate) accepted: Option<(Instant, Instant)>,
    /// It was told as safe as its queue asks.
    pub(crate) is_whole: bool,
    /// Its generations, as far as told: one, unless it was forgotten and submitted anew.
    pub(crate) generations: BTreeSet<String>,
    /// The records that were seen, by their generation: outcome and body.
    records: BTreeMap<String, BTreeSet<(String, Vec<u8>)>>,
    /// It was asked for at the end, and is not there, or did not end.
    pub(crate) is_lost: bool,
    /// How it ended.
    pub(crate) outcome: String,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    /// Requests that a caller was told are there, and of these those told as safe as asked.
    pub(crate) accepted: usize,
    /// Of these, told to be as safe as asked.
    pub(crate) whole: usize,
    /// Accepted and not there at the end.
    pub(crate) lost: usize,
    /// Of these, told to be as safe as asked.
    pub(crate) lost_whole: usize,
    /// Ended in another way than answered.
    pub(crate) failed: usize,
    /// Calls of the gateway beyond the first of each request.
    pub(crate) repeated: usize,
    /// Generations of which two different records were seen.
    pub(crate) second: usize,
    /// Answers that the gateway did not give to that request.
    pub(crate) foreign: usize,
    /// The longest time after the fault in which no caller was told yes, in milliseconds.
    pub(crate) back: u128,
    /// Late settles that were refused, as the workers count them: to be seen, not judged.
    pub(crate) fenced: u64,
}

impl Ledger {
    /// A caller was told that its request is there.
    pub(crate) fn accepted(&self, id: &str, began: Instant, answer: &Answer) {
        let told: Value = serde_json::from_slice(&answer.body).expect("a status in JSON");
        let mut entries = self.lock();
        let entry = entries.entry(id.to_owned()).or_default();
        entry.accepted.get_or_insert_with(|| (began, Instant::now()));
        let safety = &told["durability"];
        entry.is_whole |= safety.is_null() || safety["asked"] == safety["reached"];
        if let Some(generation) = told["generation"].as_str() {
            entry.generations.insert(generation.to_owned());
        }
    }

    /// A caller was shown a record.
    pub(crate) fn shown(&self, id: &str, answer: &Answer) {
        let header = |name| answer.header(name).unwrap_or_default().to_owned();
        let (outcome, generation) = (header("holdfast-outcome"), header("holdfast-generation"));
        let mut entries = self.lock();
        let entry = entries.entry(id.to_owned()).or_default();
        entry.outcome.clone_from(&outcome);
        entry.records.entry(generation).or_default().insert((outcome, answer.body.to_vec()));
    }

    /// It was asked for at the end in vain.
    pub(crate) fn lost(&self, id: &str) {
        self.lock().entry(id.to_owned()).or_default().is_lost = true;
    }

    /// The ids that were accepted.
    pub(crate) fn ids(&self) -> Vec<String> {
        let entries = self.lock();
        entries.iter().filter(|(_, it)| it.accepted.is_some()).map(|(id, _)| id.clone()).collect()
    }

    /// How long after `since` a submit that began later was first accepted, by those that serve since: the longest gap in
    /// which nobody was told yes, in milliseconds.
    pub(crate) fn back_after(&self, since: Instant) -> u128 {
        let entries = self.lock();
        let mut yes: Vec<Instant> =
            entries.values().filter_map(|it| Some(it.accepted?.1)).collect();
        yes.retain(|at| *at >= since);
        yes.sort_unstable();
        let before = [since].into_iter().chain(yes.iter().copied());
        let gaps = before.zip(&yes).map(|(before, after)| after.duration_since(before));
        gaps.max().unwrap_or_default().as_millis()
    }

    /// The figures, beside what arrived.
    pub(crate) fn count(&self, arrivals: &[Arrival]) -> Row {
        let mut calls: BTreeMap<String, usize> = BTreeMap::new();
        for arrival in arrivals {
            *calls.entry(id_in(&arrival.body)).or_default() += 1;
        }
        let mut row =
            Row { repeated: calls.values().map(|calls| calls - 1).sum(), ..Row::default() };
        for (id, entry) in self.lock().iter() {
            let counts = |it: bool| usize::from(it);
            let accepted = entry.accepted.is_some();
            row.accepted += counts(accepted);
            row.whole += counts(accepted && entry.is_whole);
            row.lost += counts(entry.is_lost);
            row.lost_whole += counts(entry.is_lost && entry.is_whole);
            row.failed += counts(!entry.is_lost && accepted && entry.outcome != "answered");
            row.second += entry.records.values().filter(|records| records.len() > 1).count();
            let bodies = entry.records.values().flatten();
            let answers = bodies.filter(|(outcome, _)| outcome == "answered");
            // The stand-in puts the head of the message into each answer.
            row.foreign += answers.filter(|(_, body)| id_in(body) != *id).count();
        }
        row
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // Each change is whole before the lock is given back.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mark of a request, as it stands in its body and in each answer to it.
pub(crate) fn id_in(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let marked = text.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    marked.map(|(id, _)| id.to_owned()).unwrap_or_default()
}
