//! One claim call: sent again under its number until Redis answers it, then what was submitted, as
//! far as it is small.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use holdfast_core::clock::ClockWatch;
use holdfast_core::model::{Fence, Outcome, Session, Ticket, Undecodable};
use holdfast_core::redis::{Bell, OpenError};
use holdfast_core::script::{self, AtBell, ClaimReply, Claimed, Lease, MAX_BYTES};
use holdfast_core::{Chain, StoreError, metrics};
use holdfast_runtime::Seldom;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use crate::backoff::Pauses;
use crate::bodies::{Bodies, Submitted};
use crate::held::{Claim, Held};
use crate::pause::before_repeat;
use crate::queue::{Queue, Shard};
use crate::slots::{Brought, Offer};
use crate::store::Store;
use crate::told;

/// What was submitted comes along with a claim if its bodies are fewer bytes than this together: so much costs Redis less
/// than to be asked again.
const ALONG: usize = 16 << 10;

/// A request that is to be dispatched.
pub(crate) struct Work {
    /// The right to do so.
    pub(crate) claim: Claim,
    /// Its state when it was claimed; none: it cannot be read by this version.
    pub(crate) ticket: Option<Box<Ticket>>,
    /// What was submitted.
    pub(crate) request: Submitted,
    /// When its deadline passes.
    pub(crate) deadline: Instant,
    /// Its caller wants it stopped.
    pub(crate) cancel_asked: bool,
}

impl Work {
    /// Whether it may be what killed its workers.
    pub(crate) fn is_suspect(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.is_suspect())
    }
}

/// How a claim waits at the bell.
pub(crate) struct Wait {
    /// At most so long.
    pub(crate) limit: Duration,
    /// Ends the wait, and what it would have claimed stays unclaimed.
    pub(crate) called_back: CancellationToken,
}

/// What came of an offer.
pub(crate) struct Answered {
    pub(crate) shard: usize,
    pub(crate) brought: Brought,
    pub(crate) work: Vec<Work>,
    /// Whether it waited at the bell in vain: the bell can't be heard for now.
    pub(crate) deaf: bool,
    /// What is to be counted of it; none: it was not answered.
    pub(crate) tally: Option<Tally>,
}

/// What is counted of a claim, once what it brought is on its way.
pub(crate) struct Tally {
    shard: usize,
    outcome: metrics::ClaimOutcome,
    ended: Vec<Outcome>,
    waited: Vec<Duration>,
}

/// An accepted claim.
struct Accepted {
    claimed: Claimed,
    /// When its copy was sent.
    sent: Instant,
    /// When it ran, at the latest: what it says of the time left counts from there, however late its answer was read.
    ran: Instant,
}

/// Claims for one worker session.
pub(crate) struct Claimer {
    store: Store,
    bodies: Arc<Bodies>,
    pub(crate) lease: Duration,
    pub(crate) held: Arc<Held>,
    pub(crate) queues: Arc<[Arc<Queue>]>,
    pub(crate) shards: Arc<[Shard]>,
    session: Session,
    calls: AtomicU64,
    clocks: Vec<Mutex<ClockWatch>>,
    /// Where the only shard is waited for.
    bell: Option<Bell>,
    /// Once cancelled, a copy that fails is the last of its call. A copy under way is waited for all the same: the client
    /// would still send one that nobody waits for, whenever it has a connection again.
    pub(crate) last: CancellationToken,
    warnings: Seldom,
}

impl Claimer {
    /// A new session.
    pub(crate) fn new(
        store: Store,
        lease: Duration,
        held: Arc<Held>,
        queues: Arc<[Arc<Queue>]>,
        shards: Arc<[Shard]>,
    ) -> Result<Self, OpenError> {
        // Of several shards one wait can't know which to claim from; on Cluster, nor where the other commands are.
        let behind = shards.len() == 1 && !store.usual.is_clustered();
        let bell = if behind { Some(Bell::open(&store.usual)?) } else { None };
        let bodies = Bodies::new(store.clone(), Arc::clone(&shards));
        let (session, calls) = (Session::random(), AtomicU64::new(0));
        let clocks = shards.iter().map(|_| Mutex::default()).collect();
        let warnings = Seldom::new(Duration::from_secs(10));
        metrics::clock_watched("claim");
        Ok(Self {
            store,
            bodies,
            lease,
            held,
            queues,
            shards,
            session,
            calls,
            clocks,
            bell,
            last: CancellationToken::new(),
            warnings,
        })
    }

    /// The name of this process in every fence.
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// Whether a claim can wait at the bell. If so, nobody else does.
    pub(crate) fn waits_at_bell(&self) -> bool {
        self.bell.is_some()
    }

    /// Claims what was offered, at once or behind the bell, and reads what came, but for what is large.
    pub(crate) async fn claim(self: Arc<Self>, offer: Offer, wait: Option<Wait>) -> Answered {
        let shard = offer.shard;
        // One number a call over all shards, so that no fence is ever used twice.
        let fence = Fence::new(self.session, self.calls.fetch_add(1, Ordering::Relaxed) + 1);
        let at_bell = wait.is_some();
        let (accepted, deaf) = match wait {
            Some(wait) => self.answer_at_bell(&offer, fence, wait).await,
            None => {
                let accepted = self.answer(shard, self.ask(&offer, fence), false).await;
                // Where no claim is answered, none is at the bell.
                let deaf = accepted.is_none();
                (accepted, deaf)
            }
        };
        let Some(Accepted { claimed, sent, ran }) = accepted else {
            let (brought, work) = (Brought::default(), Vec::new());
            return Answered { shard, brought, work, deaf, tally: None };
        };
        let tally = Some(Tally::of(&offer, at_bell, &claimed));
        let brought = Brought {
            leases: claimed.leases.len(),
            suspects: claimed.leases.iter().filter(|lease| is_suspect(&lease.ticket)).count(),
            more: claimed.more,
            next_due: claimed.next_due.map(|due| ran + due),
        };
        // Held from here on: renewed, and let go if anything below fails.
        let held: Vec<(Claim, Lease)> = claimed
            .leases
            .into_iter()
            .map(|lease| {
                let sure_until = sent + lease.till.min(self.lease);
                (self.held.hold(shard, (fence, lease.handle), sure_until), lease)
            })
            .collect();
        let requests = self.bodies.of(shard, held.iter().map(|(_, lease)| lease)).await;
        let work = held
            .into_iter()
            .zip(requests)
            .map(|((claim, lease), request)| Work {
                claim,
                ticket: lease.ticket.ok(),
                request,
                deadline: ran + lease.left,
                cancel_asked: lease.cancel_asked,
            })
            .collect();
        Answered { shard, brought, work, deaf, tally }
    }

    /// Those of these shards that hold anything, all asked at once; also those of which it can't be told.
    pub(crate) async fn look(self: Arc<Self>, shards: Vec<usize>) -> Vec<usize> {
        let ask = |shard: &usize| script::Waiting { shard: &self.shards[*shard].keys };
        let asked: Vec<_> = shards.iter().map(ask).collect();
        let answers = join_all(asked.iter().map(|asked| asked.run(&self.store.usual))).await;
        if answers.iter().all(Result::is_ok) {
            told::looped("claim");
        }
        let holds = answers.into_iter().map(|answer| answer.unwrap_or(true));
        shards.into_iter().zip(holds).filter(|(_, holds)| *holds).map(|(shard, _)| shard).collect()
    }

    fn ask(&self, offer: &Offer, fence: Fence) -> script::Claim<'_> {
        script::Claim {
            shard: &self.shards[offer.shard].keys,
            fence,
            free: offer.free,
            lease: self.lease,
            budget: MAX_BYTES,
            may_take_suspect: offer.may_take_suspect,
            trusted_until: self.clock(offer.shard).trusted_until(Instant::now(), self.lease),
            along: ALONG,
        }
    }

    /// Lets the call wait at the bell, and repeats it beside if it is not answered there. Says whether the bell could not
    /// be heard.
    ///
    /// Whatever becomes of the copy at the bell, the repeat decides: where that copy has run, the number brings what it
    /// leased; where it has not, it finds the number used whenever it runs.
    async fn answer_at_bell(
        &self,
        offer: &Offer,
        fence: Fence,
        wait: Wait,
    ) -> (Option<Accepted>, bool) {
        let (shard, mut claim) = (offer.shard, self.ask(offer, fence));
        let Some(bell) = &self.bell else { return (self.answer(shard, claim, false).await, true) };
        let sent = Instant::now();
        let AtBell { heard, reply } = tokio::select! {
            biased;
            came = claim.run_at(bell, wait.limit) => came,
            () = wait.called_back.cancelled() => {
                bell.hang_up();
                (claim.free, claim.trusted_until) = (0, 0);
                return (self.answer(shard, claim, true).await, false);
            }
        };
        let deaf = heard.is_err();
        match reply {
            Ok(reply) => (self.accept(shard, fence, reply, sent), deaf),
            Err(err) => {
                debug!(error = %Chain(heard.as_ref().err().unwrap_or(&err)), "a claim is not answered at the bell");
                claim.trusted_until = 0;
                (self.answer(shard, claim, err.may_have_run()).await, true)
            }
        }
    }

    /// Repeats the call until it is answered. None: it is known not to have run, and need not be repeated, or it was the
    /// last copy.
    async fn answer(
        &self,
        shard: usize,
        mut claim: script::Claim<'_>,
        may_have_run: bool,
    ) -> Option<Accepted> {
        let (mut pauses, mut may_have_run) = (Pauses::default(), may_have_run);
        loop {
            let sent = Instant::now();
            let err = match claim.run(&self.store.usual).await {
                Ok(reply) => return self.accept(shard, claim.fence, reply, sent),
                Err(err) => err,
            };
            self.warn(&err);
            // Whatever answers next may have another clock.
            claim.trusted_until = 0;
            may_have_run |= err.may_have_run();
            tokio::select! {
                () = before_repeat(&mut pauses) => {}
                () = self.last.cancelled() => return None,
            }
            if !may_have_run {
                return None;
            }
        }
    }

    fn accept(
        &self,
        shard: usize,
        fence: Fence,
        reply: ClaimReply,
        sent: Instant,
    ) -> Option<Accepted> {
        let ClaimReply::Claimed(claimed) = reply else {
            error!(%fence, "a claim of ours was overtaken by another of the same session");
            return None;
        };
        let answered = Instant::now();
        let ran = self.clock(shard).shown(claimed.now, sent, answered);
        self.sight(shard, claimed.now, sent, answered);
        Some(Accepted { claimed, sent, ran })
    }

    /// Takes a sight of the clock of Redis: what would end by a clock that leapt must rest.
    fn sight(&self, shard: usize, redis_ms: u64, asked: Instant, seen: Instant) {
        if self.clock(shard).sight(redis_ms, asked, seen, self.lease) {
            metrics::clock_skipped("claim");
            let queue = self.shards[shard].keys.queue.as_str();
            error!(
                queue,
                "the clock of redis leapt ahead: deadlines do not end requests for a while"
            );
        }
    }

    fn clock(&self, shard: usize) -> MutexGuard<'_, ClockWatch> {
        // Plain values: whole also after a panic.
        self.clocks[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a claim.
    pub(crate) fn count(&self, tally: Tally) {
        let queue = self.queues[self.shards[tally.shard].queue].name.as_str();
        metrics::claimed(queue, tally.outcome);
        told::looped("claim");
        for outcome in tally.ended {
            metrics::ended(queue, outcome.word());
        }
        for waited in tally.waited {
            metrics::waited(queue, waited);
        }
    }

    fn warn(&self, err: &StoreError) {
        if let Some(held_back) = self.warnings.now() {
            warn!(error = %Chain(err), held_back, "no answer to a claim yet");
        }
    }
}

impl Tally {
    fn of(offer: &Offer, at_bell: bool, claimed: &Claimed) -> Self {
        let outcome = match claimed.leases.len() {
            0 => metrics::ClaimOutcome::Empty,
            // At the bell one is asked for, however many slots there are.
            leases if leases >= offer.free && (claimed.more || !at_bell) => {
                metrics::ClaimOutcome::Full
            }
            _ => metrics::ClaimOutcome::Some,
        };
        let tickets = claimed.leases.iter().filter_map(|lease| lease.ticket.as_ref().ok());
        // Later attempts have waited on purpose, and the ticket does not say until when.
        let first = tickets.filter(|ticket| ticket.attempts == 1);
        let waited = first.map(|ticket| {
            let runnable = ticket.submitted_at.max(ticket.not_before);
            Duration::from_millis(ticket.claimed_at.saturating_sub(runnable))
        });
        Self {
            shard: offer.shard,
            outcome,
            ended: claimed.ended.iter().map(|(_, outcome)| *outcome).collect(),
            waited: waited.collect(),
        }
    }
}

fn is_suspect(ticket: &Result<Box<Ticket>, Undecodable>) -> bool {
    ticket.as_ref().is_ok_and(|ticket| ticket.is_suspect())
}
