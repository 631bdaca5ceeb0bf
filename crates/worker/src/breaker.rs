//! How many calls a target is given at once, by what it makes of them. Pure: the time and the
//! random source are passed in.
//!
//! A refusal (429, 503, no connection) halves what is allowed, once a round trip; every answer adds
//! to it again. Refusals in a row, with no answer among them, open the breaker: then one call goes
//! at a time, as a probe, and after each that is refused there is a pause, the longer the row has
//! lasted. A probe that is taken closes it, and what is allowed doubles with each round until it is
//! where it was. So a burst that is refused holds up what is due right after it for moments only.
//!
//! A call that is out for long without a refusal counts as taken: a target whose answers need
//! minutes must not be kept small for as long. Silence for the whole time-out of an attempt belongs
//! to a row like a refusal, but halves nothing: it may be the request that takes so long.

use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

use crate::backoff::between;
use crate::gateway::ASKED_FOR;

/// So many refusals with no answer among them: nothing gets through.
const IN_A_ROW: u32 = 5;

/// The shortest pause between two probes. It is half as long as the row has lasted, where that is more:
/// what was refused in a burst is due again after its own wait, and must not meet a longer one here.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest, unless the target asks for more.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// The longest that a target is granted: one odd answer must not stop a queue for hours.
const LONGEST_WISH: Duration = Duration::from_secs(60);
/// What a target asks for is each request's own to keep. It holds for the queue as well once a row has
/// lasted so long, and all of it has asked.
const LASTING: Duration = Duration::from_secs(5);

/// A call that was written and not refused for so long counts as taken, unless refusals came later
/// than that.
const QUIET: Duration = Duration::from_secs(1);

/// A step up is this part of the most that may be allowed,
const STEP: f64 = 8.0;
/// but smaller so soon after a refusal: a target that refuses now and then for good is not pressed.
const GENTLE: Duration = Duration::from_millis(500);

/// What the end of a call says of its target. Most faults say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It answered, and not by sending the call away.
    Answered,
    /// It sent the call away, and perhaps said for how long.
    Busy {
        /// 429 or 503, as a word.
        reason: &'static str,
        /// Its `Retry-After`.
        asked: Option<Duration>,
    },
    /// There was no connection.
    Unreachable {
        /// Which stage of it failed.
        reason: &'static str,
    },
    /// It took the call, and nothing came back for as long as an attempt may take.
    Silent {
        /// How that was told, as a word.
        reason: &'static str,
    },
    /// It took the call, and did not say on its connection that it lives. That tells of this connection: of the target
    /// only where nobody was answered meanwhile.
    Dead {
        /// How that was told, as a word.
        reason: &'static str,
    },
}

impl Sign {
    fn is_silence(self) -> bool {
        matches!(self, Self::Silent { .. } | Self::Dead { .. })
    }
}

/// The end of a call, or of an attempt that had none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    /// What it says of the target.
    pub(crate) sign: Option<Sign>,
    /// When it was.
    pub(crate) at: Instant,
}

impl Over {
    /// Now, and it says nothing of the target.
    pub(crate) fn unsaid() -> Self {
        Self { sign: None, at: Instant::now() }
    }
}

/// A call that is under way, as the breaker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    began: Instant,
    /// The opening that it is a probe of.
    probe_of: Option<u32>,
    /// How long it must go without a refusal to count as taken; none: nobody needs to know.
    pub(crate) patience: Option<Duration>,
    taken: bool,
}

impl Call {
    /// Whether it went out to see if an open breaker may close.
    pub(crate) fn is_probe(&self) -> bool {
        self.probe_of.is_some()
    }
}

/// Whether a target is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// It gets as much as its slots allow.
    Closed = 0,
    /// It gets less.
    Limited = 1,
    /// It gets a probe now and then.
    Open = 2,
}

impl State {
    /// The state as it is shown.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Limited => "limited",
            Self::Open => "open",
        }
    }
}

/// The breaker of one target in one worker.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    /// The most that may be allowed.
    ceiling: f64,
    /// Calls at once, for now. Parts of one add up.
    allowed: f64,
    /// Up to here each answer adds a whole call; beyond, each round trip adds a step.
    known: f64,
    refusals: Refusals,
    /// What a call was refused for that began before, has been answered by a cut already.
    cut_at: Option<Instant>,
    open: Option<Open>,
    /// How often it was opened.
    openings: u32,
    /// When the latest answer came, open or not.
    answered_at: Option<Instant>,
}

/// Refusals with no answer among them: a row.
#[derive(Clone, Copy, Debug)]
struct Refusals {
    count: u32,
    /// When the first of them came.
    since: Option<Instant>,
    /// What was allowed before the first of them.
    before: f64,
    /// How long to wait for a refusal, by how late the latest came.
    patience: Duration,
    /// Why the last call was refused.
    reason: &'static str,
    /// For how long each of them at least has asked to be left alone.
    asked: Option<Duration>,
    /// Whether silence is among them.
    silent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// Which opening this is.
    number: u32,
    /// When the next probe may go.
    until: Instant,
    /// Probes under way.
    out: usize,
}

impl Breaker {
    /// Closed: a target is good until it refuses.
    pub(crate) fn new(ceiling: usize) -> Self {
        let ceiling = ceiling.max(1) as f64;
        let (patience, reason, asked) = (QUIET, "", None);
        let (count, since, before, silent) = (0, None, ceiling, false);
        let refusals = Refusals { count, since, before, patience, reason, asked, silent };
        let (allowed, known) = (ceiling, ceiling);
        let (cut_at, open, openings, answered_at) = (None, None, 0, None);
        Self { ceiling, allowed, known, refusals, cut_at, open, openings, answered_at }
    }

    /// How many more calls may begin now, beside those that run and those that may come of claims
    /// that are under way.
    pub(crate) fn room(&self, now: Instant, running: usize, set_aside: usize) -> usize {
        match &self.open {
            Some(open) if now < open.until => 0,
            // What began before it opened says nothing, and is not waited for.
            Some(open) => 1_usize.saturating_sub(open.out + set_aside),
            None => (self.allowed as usize).saturating_sub(running + set_aside),
        }
    }

    /// When a probe may go, if none may go before.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        self.open.as_ref().filter(|open| open.out == 0).map(|open| open.until)
    }

    /// Whether the target is held back.
    pub(crate) fn state(&self) -> State {
        match self.open {
            Some(_) => State::Open,
            None if self.allowed < self.ceiling => State::Limited,
            None => State::Closed,
        }
    }

    /// Calls at once, as it is shown: none while it is open.
    pub(crate) fn allowed(&self) -> usize {
        if self.open.is_some() { 0 } else { self.allowed as usize }
    }

    /// Why the last refused call was refused.
    pub(crate) fn reason(&self) -> &'static str {
        self.refusals.reason
    }

    /// A call begins.
    pub(crate) fn begin(&mut self, now: Instant) -> Call {
        let held_back = self.state() != State::Closed;
        let patience = held_back.then_some(self.refusals.patience);
        let probe_of = self.open.as_mut().map(|open| {
            open.out += 1;
            open.number
        });
        Call { began: now, probe_of, patience, taken: false }
    }

    /// A call has been out for its patience, and was not refused; so many run, this one too.
    pub(crate) fn taken(&mut self, call: &mut Call, now: Instant, running: usize) {
        if std::mem::replace(&mut call.taken, true) {
            return;
        }
        match &self.open {
            Some(open) if call.probe_of == Some(open.number) => self.close(now, running),
            Some(_) => {}
            // It adds its own place, which it does not leave, and what an answer adds.
            None => self.grow(2.0, now),
        }
    }

    /// A call is over; so many still run. True if less is allowed from now on.
    pub(crate) fn end(
        &mut self,
        call: Call,
        sign: Option<Sign>,
        now: Instant,
        running: usize,
        rng: &mut impl Rng,
    ) -> bool {
        let probed = self.open.as_mut().filter(|open| call.probe_of == Some(open.number));
        let is_probe = probed.is_some();
        if let Some(open) = probed {
            open.out = open.out.saturating_sub(1);
        }
        if sign == Some(Sign::Answered) {
            self.answered_at = self.answered_at.max(Some(now));
        }
        match sign.filter(|sign| !self.is_of_one_connection(*sign, now)) {
            Some(Sign::Answered) if self.open.is_none() => {
                self.refusals.count = 0;
                self.grow(if call.taken { 0.0 } else { 1.0 }, now);
            }
            Some(Sign::Answered) if is_probe => self.close(now, running),
            Some(Sign::Answered) => {}
            Some(refusal) => return self.refused(call, refusal, is_probe, now, rng),
            None if is_probe => self.said_nothing(call, now, running, rng),
            None => {}
        }
        false
    }

    /// Whether only a connection is dead: while it was asked whether it lives, somebody was answered. All of its calls end at
    /// one moment, so they would be a row by themselves. A target that hangs answers nobody for as long.
    fn is_of_one_connection(&self, sign: Sign, now: Instant) -> bool {
        let answered = self.answered_at.map(|at| now.saturating_duration_since(at));
        matches!(sign, Sign::Dead { .. }) && answered.is_some_and(|ago| ago < ASKED_FOR)
    }

    /// A probe was ended by its deadline or its caller. It is followed by another, but not at once.
    fn said_nothing(&mut self, call: Call, now: Instant, running: usize, rng: &mut impl Rng) {
        let quiet = now.saturating_duration_since(call.began) >= QUIET;
        if quiet && self.refusals.silent {
            // Whether it would have been answered nobody knows. One call at a time, each the nearest to its
            // deadline, might never tell; so silence that lasts less than the time-out counts for the target.
            self.refusals.patience = QUIET;
            return self.close(now, running);
        }
        let until = now + self.refusals.pause(now, rng);
        if let Some(open) = &mut self.open {
            open.until = until;
        }
    }

    fn refused(
        &mut self,
        call: Call,
        sign: Sign,
        is_probe: bool,
        now: Instant,
        rng: &mut impl Rng,
    ) -> bool {
        self.refusals.add(sign, self.allowed, call, now);
        let until = now + self.refusals.pause(now, rng);
        if let Some(open) = &mut self.open {
            if is_probe {
                open.until = until;
            }
            return false;
        }
        if self.refusals.count >= IN_A_ROW {
            self.openings = self.openings.wrapping_add(1);
            self.open = Some(Open { number: self.openings, until, out: 0 });
            return true;
        }
        // A burst that was sent at once is refused at once: that is one refusal.
        let answered_by_a_cut = self.cut_at.is_some_and(|cut| call.began <= cut);
        if answered_by_a_cut || sign.is_silence() {
            return false;
        }
        self.allowed = (self.allowed / 2.0).max(1.0);
        (self.known, self.cut_at) = (self.allowed, Some(now));
        true
    }

    /// A probe was taken: so many run, and there may be as many again.
    fn close(&mut self, now: Instant, running: usize) {
        self.open = None;
        self.known = self.refusals.before;
        self.allowed = (running as f64 + 2.0).min(self.ceiling);
        // Whatever comes of other probes has been answered by the pauses.
        self.cut_at = Some(now);
        self.refusals.count = 0;
    }

    fn grow(&mut self, calls: f64, now: Instant) {
        let since = self.cut_at.map_or(GENTLE, |cut| now.saturating_duration_since(cut));
        let step = self.ceiling / STEP * since.div_duration_f64(GENTLE).min(1.0);
        let part = if self.allowed < self.known { 1.0 } else { step.max(1.0) / self.allowed };
        self.allowed = (self.allowed + calls * part).min(self.ceiling);
    }
}

impl Refusals {
    /// One more of them; so much was allowed when it came.
    fn add(&mut self, sign: Sign, allowed: f64, call: Call, now: Instant) {
        let (reason, asked) = match sign {
            Sign::Busy { reason, asked } => (reason, asked),
            Sign::Unreachable { reason } | Sign::Silent { reason } | Sign::Dead { reason } => {
                (reason, None)
            }
            Sign::Answered => return,
        };
        if self.count == 0 {
            let (since, before, patience, silent) = (Some(now), allowed, QUIET, false);
            *self = Self { count: 0, since, before, patience, reason, asked, silent };
        }
        self.asked = self.asked.zip(asked).map(|(before, asked)| before.min(asked));
        self.count = self.count.saturating_add(1);
        self.reason = reason;
        self.silent |= sign.is_silence();
        if !matches!(sign, Sign::Unreachable { .. }) {
            let late = 2 * now.saturating_duration_since(call.began);
            self.patience = self.patience.max(late);
        }
    }

    /// How long to leave the target alone before the next probe.
    fn pause(&self, now: Instant, rng: &mut impl Rng) -> Duration {
        let lasted = self.since.map_or(Duration::ZERO, |it| now.saturating_duration_since(it));
        let step = (lasted / 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let own = between(step * 3 / 4, step, rng);
        let asked = self.asked.filter(|_| lasted >= LASTING);
        asked.map_or(own, |asked| own.max(asked.min(LONGEST_WISH)))
    }
}

#[cfg(test)]
mod tests;
