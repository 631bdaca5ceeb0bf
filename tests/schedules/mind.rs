//! What a worker must know by what it was told, and what it may do with that: section 7 of the protocol, as checks.
//!
//! All moments are ms since the play began. What a worker asks is seen the moment that it sends it, and what it is told the
//! moment that it hears it, since no time passes while bytes travel.

use std::collections::BTreeMap;

use holdfast_model::{
    call::{Claim, Settle},
    state::{Answer, Fence, Handle, Id, Session, Word},
};

type Lease = (Fence, Handle);
pub(crate) type At = u64;
pub(crate) type Checked = Result<(), String>;

/// How late a worker may be where its own clock or the word of Redis ends a lease: it looks fifty times a lease.
const LATE: At = 600;
/// How long a round of renewals that began before a settle was answered may go on: a round, and a call.
const ROUND: At = 10_000;
/// How long a call may wait for a connection.
const WAIT: At = 2_000;
/// How long a worker that stops repeats its last claims, and how long the last copy may wait for a connection.
const LAST_CLAIMS: At = 5_000 + WAIT + 500;
/// How long the worker's own bookkeeping may take beside what it promises: a few calls that are lost.
const SLACK: At = 1_500;

/// What a worker was told to be, and what it has heard since.
pub(crate) struct Mind {
    slots: usize,
    session: Option<Session>,
    leases: BTreeMap<Lease, Known>,
    /// Calls under way, and the lease of each.
    calls: BTreeMap<u64, Lease>,
    claim: Option<Asked>,
    stop: Option<Stop>,
    ended: bool,
    /// When a connection of its broke last.
    cut_off: Option<At>,
}

/// How a worker was told to end.
#[derive(Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) at: At,
    /// When it must have ended.
    pub(crate) by: At,
    /// It stood still meanwhile, and its time may be over when it wakes.
    pub(crate) stalled: bool,
}

/// Its last claim.
struct Asked {
    call: u64,
    /// Its copies of which nobody knows whether they have run.
    unknown: usize,
    over: bool,
}

/// What it knows of a lease.
#[derive(Default)]
struct Known {
    /// Counted from when the last accepted claim or renewal was sent.
    sure_until: At,
    /// When it was told that it is not its own.
    lost: Option<At>,
    /// What the gateway said last under it.
    heard: Option<Heard>,
    /// How it is being settled.
    word: Option<Word>,
    /// Redis refused a group that it was in.
    refused: bool,
    settled: Option<At>,
    /// It was told, while it waited for the answer to a settle, that the lease is over; or may have been told so.
    let_go: bool,
}

#[derive(Clone, Copy)]
struct Heard {
    status: u64,
    answer: Answer,
    late: bool,
}

impl Known {
    fn is_lost(&self, now: At) -> bool {
        self.sure_until < now || self.lost.is_some_and(|lost| lost < now)
    }

    fn is_over(&self) -> bool {
        self.settled.is_some() || self.lost.is_some() || self.let_go
    }
}

impl Mind {
    pub(crate) fn new(slots: usize) -> Self {
        let (leases, calls) = (BTreeMap::new(), BTreeMap::new());
        Self {
            slots,
            session: None,
            leases,
            calls,
            claim: None,
            stop: None,
            ended: false,
            cut_off: None,
        }
    }

    pub(crate) fn stop(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }

    /// It could do nothing for so long, like all around it but Redis.
    pub(crate) fn stalls(&mut self, ms: At) {
        if let Some(stop) = &mut self.stop {
            (stop.by, stop.stalled) = (stop.by + ms, true);
        }
        for known in self.leases.values_mut() {
            known.settled.iter_mut().for_each(|settled| *settled += ms);
        }
    }

    /// A connection of its has broken.
    pub(crate) fn is_cut_off(&mut self, now: At) {
        self.cut_off = Some(now);
    }

    /// Its process has ended.
    pub(crate) fn ends(&mut self) {
        self.ended = true;
    }

    /// Whether its process has ended.
    pub(crate) fn has_gone(&self) -> bool {
        self.ended
    }

    /// Its name in fences, once it has claimed.
    pub(crate) fn session(&self) -> Option<Session> {
        self.session
    }

    pub(crate) fn stopped(&self) -> Option<Stop> {
        self.stop
    }

    /// It sends a claim.
    pub(crate) fn asks_claim(&mut self, now: At, claim: &Claim) -> Checked {
        let call = claim.fence.call;
        self.session = Some(claim.fence.session);
        if let Some(asked) = &self.claim {
            if call < asked.call {
                return Err(format!("claim {call} after claim {}", asked.call));
            }
            if call > asked.call && !asked.over {
                return Err(format!(
                    "claim {call}, and nobody knows what claim {} did",
                    asked.call
                ));
            }
        }
        let is_new = self.claim.as_ref().is_none_or(|asked| asked.call < call);
        if is_new {
            if self.stop.is_some_and(|stop| stop.at < now && !self.may_be_of_before(stop, now)) {
                return Err(format!("a new claim, {call}, of a worker that was told to stop"));
            }
            let held = self.leases.values().filter(|it| !it.is_over() && !it.is_lost(now)).count();
            if held + claim.free as usize > self.slots {
                let slots = self.slots;
                return Err(format!("claims {} beside {held} of {slots} slots", claim.free));
            }
            self.claim = Some(Asked { call, unknown: 0, over: false });
        }
        if let Some(asked) = &mut self.claim {
            asked.unknown += 1;
        }
        Ok(())
    }

    /// Whether a claim may have been begun before the worker was told to stop: cut off, it waits for a connection.
    fn may_be_of_before(&self, stop: Stop, now: At) -> bool {
        self.cut_off.is_some_and(|at| at + WAIT >= stop.at) && now < stop.at + LAST_CLAIMS
    }

    /// It hears the answer to a claim that it sent at `sent`: the leases, and how long each lasts.
    pub(crate) fn hears_claim(&mut self, sent: At, claim: &Claim, leases: &[(Handle, u64)]) {
        if let Some(asked) = self.claim.as_mut().filter(|it| it.call == claim.fence.call) {
            asked.over = true;
        }
        for (handle, till) in leases {
            let known = self.leases.entry((claim.fence, *handle)).or_default();
            known.sure_until = known.sure_until.max(sent + till.min(&claim.lease));
        }
    }

    /// It hears that a copy of a claim has not run.
    pub(crate) fn claim_has_not_run(&mut self, call: u64) {
        if let Some(asked) = self.claim.as_mut().filter(|asked| asked.call == call) {
            asked.unknown -= 1;
            asked.over |= asked.unknown == 0;
        }
    }

    /// It sends a renewal.
    pub(crate) fn asks_renew(&self, now: At, leases: &[Lease]) -> Checked {
        for lease in leases {
            let Some(known) = self.leases.get(lease) else {
                return Err(format!("renews {lease:?}, which it was never given"));
            };
            if known.settled.is_some_and(|settled| settled + ROUND < now) {
                return Err(format!("renews {lease:?}, which it has settled"));
            }
        }
        Ok(())
    }

    /// It hears the answer to a renewal: how long each lease lasts, or none if it is lost.
    pub(crate) fn hears_renew(
        &mut self,
        now: At,
        sent: At,
        length: u64,
        answers: &[(Lease, Option<u64>)],
    ) {
        for (lease, till) in answers {
            let Some(known) = self.leases.get_mut(lease) else { continue };
            match till {
                Some(till) => known.sure_until = known.sure_until.max(sent + till.min(&length)),
                // A settle that is under way may be the reason.
                None if known.word.is_none() => known.lost = known.lost.or(Some(now)),
                None => known.let_go = true,
            }
        }
    }

    /// It may have heard that these are not its own any more, or never that they are.
    pub(crate) fn may_let_go(&mut self, leases: &[Lease]) {
        for lease in leases {
            if let Some(known) = self.leases.get_mut(lease) {
                known.let_go = true;
            }
        }
    }

    /// It sends a settle.
    pub(crate) fn asks_settle(&mut self, rows: &[Settle]) -> Checked {
        for row in rows {
            let lease = (row.fence, row.handle);
            let Some(known) = self.leases.get_mut(&lease) else {
                return Err(format!("settles {lease:?}, which it was never given"));
            };
            match known.word {
                None => known.begins_to_settle(row)?,
                Some(word) if word == row.word => {}
                Some(_) if row.word == Word::Bury && known.refused => {}
                Some(word) => {
                    return Err(format!("settles {lease:?} as {:?} after {word:?}", row.word));
                }
            }
            known.word = Some(row.word);
        }
        Ok(())
    }

    /// It hears the answer to a settle.
    pub(crate) fn hears_settle(&mut self, now: At, rows: &[Settle]) {
        for row in rows {
            if let Some(known) = self.leases.get_mut(&(row.fence, row.handle)) {
                known.settled = known.settled.or(Some(now));
            }
        }
    }

    /// It hears that a group is refused.
    pub(crate) fn group_is_refused(&mut self, rows: &[Settle]) {
        let alone = rows.len() == 1;
        for row in rows {
            if let Some(known) = self.leases.get_mut(&(row.fence, row.handle)) {
                known.refused |= alone;
            }
        }
    }

    /// The gateway is called.
    pub(crate) fn calls(&mut self, now: At, call: u64, id: Id) -> Checked {
        if self.stop.is_some_and(|stop| stop.at < now) {
            return Err(format!("calls for {id:?}, and was told to stop"));
        }
        // The last one that is not being called for already.
        let is_free = |(lease, known): &(&Lease, &Known)| {
            lease.1.id == id && known.word.is_none() && !self.calls.values().any(|it| it == *lease)
        };
        let Some((lease, known)) = self.leases.iter().rfind(is_free) else {
            return Err(format!("calls for {id:?} without a lease"));
        };
        if known.is_lost(now) {
            return Err(format!("calls for {id:?} under {lease:?}, which it knows to be lost"));
        }
        self.calls.insert(call, *lease);
        Ok(())
    }

    /// The gateway has answered, and the worker hears it.
    pub(crate) fn is_answered(&mut self, now: At, call: u64, status: u64, answer: Answer) {
        let lease = self.calls.remove(&call);
        if let Some(known) = lease.and_then(|lease| self.leases.get_mut(&lease)) {
            known.heard = Some(Heard { status, answer, late: known.is_lost(now) });
        }
    }

    /// A call is over without an answer.
    pub(crate) fn hangs_up(&mut self, call: u64) {
        self.calls.remove(&call);
    }

    /// What must hold whenever the worker has nothing left to do.
    pub(crate) fn is_at_rest(&self, now: At) -> Checked {
        if self.calls.len() > self.slots {
            return Err(format!("{} calls with {} slots", self.calls.len(), self.slots));
        }
        for lease in self.calls.values() {
            let known = self.leases.get(lease);
            if known.is_none_or(|known| known.settled.is_some()) {
                return Err(format!("a call goes on under {lease:?}, which is settled"));
            }
            if known.is_some_and(|known| known.is_lost(now.saturating_sub(LATE))) {
                return Err(format!("a call goes on under {lease:?}, which is lost"));
            }
        }
        match self.stop {
            Some(stop) if !self.ended && now > stop.by + SLACK => {
                Err("has not ended in time".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// What must hold once it has ended, after a time without faults.
    pub(crate) fn has_ended(&self) -> Checked {
        if let Some(call) = self.calls.values().next() {
            return Err(format!("ended, and its call for {call:?} goes on"));
        }
        let open = |known: &&Known| !known.is_over();
        match self.leases.iter().find(|(_, known)| open(known)) {
            Some((lease, _)) => Err(format!("ended without a word of {lease:?}")),
            None => Ok(()),
        }
    }
}

impl Known {
    /// Nothing is published that came under a lost lease, and nothing else than what came.
    fn begins_to_settle(&self, row: &Settle) -> Checked {
        let Some(heard) = self.heard else {
            let published = row.word == Word::Ack;
            return if published {
                Err(format!("publishes what nobody said: {row:?}"))
            } else {
                Ok(())
            };
        };
        if heard.late && matches!(row.word, Word::Ack | Word::Bury) {
            return Err(format!("publishes what came after the lease was lost: {row:?}"));
        }
        let same = row.number == heard.status && row.answer == Some(heard.answer);
        if row.word == Word::Ack && !same {
            return Err(format!("publishes something else than it heard: {row:?}"));
        }
        Ok(())
    }
}
