//! One claim call: sent again under its number until Redis answers it, then what was submitted, as
//! far as it is small.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holdfast_core::clock::ClockWatch;
use holdfast_core::model::{Fence, Session, Ticket, Undecodable};
use holdfast_core::script::{self, ClaimReply, Claimed, Lease, MAX_BYTES};
use holdfast_core::{Chain, StoreError, metrics};
use holdfast_runtime::Seldom;
use tracing::{error, warn};

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
    /// Its state when it was claimed.
    pub(crate) ticket: Result<Box<Ticket>, Undecodable>,
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
        is_suspect(&self.ticket)
    }
}

/// What came of an offer.
pub(crate) struct Answered {
    pub(crate) shard: usize,
    pub(crate) brought: Brought,
    pub(crate) work: Vec<Work>,
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
    ) -> Self {
        let bodies = Bodies::new(store.clone(), Arc::clone(&shards));
        let (session, calls) = (Session::random(), AtomicU64::new(0));
        let clocks = shards.iter().map(|_| Mutex::default()).collect();
        let warnings = Seldom::new(Duration::from_secs(10));
        Self { store, bodies, lease, held, queues, shards, session, calls, clocks, warnings }
    }

    /// The name of this process in every fence.
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// Claims what was offered, and reads what came, but for what is large.
    pub(crate) async fn claim(self: Arc<Self>, offer: Offer) -> Answered {
        let shard = offer.shard;
        // One number a call over all shards, so that no fence is ever used twice.
        let fence = Fence::new(self.session, self.calls.fetch_add(1, Ordering::Relaxed) + 1);
        let Some((claimed, sent, answered)) = self.answer(&offer, fence).await else {
            return Answered { shard, brought: Brought::default(), work: Vec::new() };
        };
        self.count(&offer, &claimed);
        let brought = Brought {
            leases: claimed.leases.len(),
            suspects: claimed.leases.iter().filter(|lease| is_suspect(&lease.ticket)).count(),
            more: claimed.more,
            next_due: claimed.next_due.map(|due| answered + due),
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
                ticket: lease.ticket,
                request,
                deadline: answered + lease.left,
                cancel_asked: lease.cancel_asked,
            })
            .collect();
        Answered { shard, brought, work }
    }

    /// Repeats the call until it is answered: the claim, and when its copy was sent and answered.
    /// None: it is known not to have run, and need not be repeated.
    async fn answer(&self, offer: &Offer, fence: Fence) -> Option<(Claimed, Instant, Instant)> {
        let mut claim = script::Claim {
            shard: &self.shards[offer.shard].keys,
            fence,
            free: offer.free,
            lease: self.lease,
            budget: MAX_BYTES,
            may_take_suspect: offer.may_take_suspect,
            trusted_until: self.clock(offer.shard).trusted_until(Instant::now(), self.lease),
            along: ALONG,
        };
        let (mut pauses, mut may_have_run) = (Pauses::default(), false);
        loop {
            let sent = Instant::now();
            let err = match claim.run(&self.store.usual).await {
                Ok(ClaimReply::Claimed(claimed)) => {
                    let answered = Instant::now();
                    self.sight(offer.shard, claimed.now, sent, answered);
                    return Some((claimed, sent, answered));
                }
                Ok(ClaimReply::Stale) => {
                    error!(%fence, "a claim of ours was overtaken by another of the same session");
                    return None;
                }
                Err(err) => err,
            };
            self.warn(&err);
            // Whatever answers next may have another clock.
            claim.trusted_until = 0;
            may_have_run |= err.may_have_run();
            before_repeat(&mut pauses).await;
            if !may_have_run {
                return None;
            }
        }
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

    fn count(&self, offer: &Offer, claimed: &Claimed) {
        let queue = self.queues[self.shards[offer.shard].queue].name.as_str();
        let outcome = match claimed.leases.len() {
            0 => metrics::ClaimOutcome::Empty,
            leases if leases >= offer.free => metrics::ClaimOutcome::Full,
            _ => metrics::ClaimOutcome::Some,
        };
        metrics::claimed(queue, outcome);
        told::looped("claim");
        for (_, outcome) in &claimed.ended {
            metrics::ended(queue, outcome.word());
        }
        for ticket in claimed.leases.iter().filter_map(|lease| lease.ticket.as_ref().ok()) {
            // Later attempts have waited on purpose, and the ticket does not say until when.
            if ticket.attempts == 1 {
                let runnable = ticket.submitted_at.max(ticket.not_before);
                let waited = ticket.claimed_at.saturating_sub(runnable);
                metrics::waited(queue, Duration::from_millis(waited));
            }
        }
    }

    fn warn(&self, err: &StoreError) {
        if let Some(held_back) = self.warnings.now() {
            warn!(error = %Chain(err), held_back, "no answer to a claim yet");
        }
    }
}

fn is_suspect(ticket: &Result<Box<Ticket>, Undecodable>) -> bool {
    ticket.as_ref().is_ok_and(|ticket| ticket.is_suspect())
}
