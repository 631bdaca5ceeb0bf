//! The leases that this process holds, and who may end them.
//!
//! Holding is a value: a [`Claim`] is renewed for as long as it lives, and whatever ends a dispatch
//! (a settle, an error, a panic) ends the renewal by dropping it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use holdfast_core::metrics;
use holdfast_core::model::{Fence, Handle, QueueName};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Why a dispatch is to stop. The first reason counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The lease is not ours any more, or we can't be sure of it.
    Lost,
    /// Its caller wants it stopped.
    Cancelled,
    /// This process ends, and has waited long enough.
    Drained,
}

/// Every lease that this process holds.
#[derive(Debug)]
pub(crate) struct Held {
    leases: Mutex<Leases>,
    /// Changes when all that runs is to be renewed at once.
    doubts: watch::Sender<()>,
    /// The queue of each shard, as a place in `queues`.
    queue_of: Vec<usize>,
    queues: Vec<QueueName>,
}

#[derive(Debug)]
struct Leases {
    shards: Vec<HashMap<(Fence, Handle), Entry>>,
    counts: Vec<usize>,
}

#[derive(Debug)]
struct Entry {
    /// Counted from when the last accepted claim or renewal was sent: later, it may be another's.
    sure_until: Instant,
    /// A renewal was refused: by the word of Redis it is not ours, or will not be in no time.
    refused: bool,
    /// Since when a settle is under way: only its answer says what became of the lease.
    settling: Option<Instant>,
    reason: Arc<Reason>,
}

/// The first reason to stop a dispatch, once there is one. A channel that keeps a value would do, and takes half a KB for each
/// lease.
#[derive(Debug, Default)]
struct Reason {
    first: OnceLock<Stop>,
    told: Notify,
}

impl Held {
    /// Nothing yet. `queue_of` has the queue of each shard.
    pub(crate) fn new(queues: Vec<QueueName>, queue_of: Vec<usize>) -> Arc<Self> {
        let shards = queue_of.iter().map(|_| HashMap::new()).collect();
        let leases = Mutex::new(Leases { shards, counts: vec![0; queues.len()] });
        Arc::new(Self { leases, doubts: watch::Sender::default(), queue_of, queues })
    }

    /// Takes a lease into care.
    pub(crate) fn hold(
        self: &Arc<Self>,
        shard: usize,
        owner: (Fence, Handle),
        sure_until: Instant,
    ) -> Claim {
        let reason = Arc::<Reason>::default();
        let mut leases = self.lock();
        let entry =
            Entry { sure_until, refused: false, settling: None, reason: Arc::clone(&reason) };
        leases.shards[shard].insert(owner, entry);
        self.count(&mut leases, shard, 1);
        Claim { shard, owner, reason, held: Arc::clone(self) }
    }

    /// What is to be renewed in a shard.
    pub(crate) fn owners(&self, shard: usize) -> Vec<(Fence, Handle)> {
        self.lock().shards[shard].keys().copied().collect()
    }

    /// The same without what is being settled: that has nothing left to stop for, and who settles it
    /// would take a refusal for the end of it.
    pub(crate) fn running(&self, shard: usize) -> Vec<(Fence, Handle)> {
        let leases = self.lock();
        let running = leases.shards[shard].iter().filter(|(_, entry)| entry.settling.is_none());
        running.map(|(owner, _)| *owner).collect()
    }

    /// What Redis says of the leases may have been missed: what runs is to be renewed at once.
    pub(crate) fn doubt(&self) {
        self.doubts.send_replace(());
    }

    /// Tells of each doubt from now on; of several that nobody looked at, once. Speaks for as long
    /// as this lives.
    pub(crate) fn doubts(&self) -> watch::Receiver<()> {
        self.doubts.subscribe()
    }

    /// A renewal was accepted.
    pub(crate) fn renewed(&self, shard: usize, owner: &(Fence, Handle), sure_until: Instant) {
        if let Some(entry) = self.lock().shards[shard].get_mut(owner) {
            entry.sure_until = sure_until;
        }
    }

    /// A renewal was refused, one of a round that began at `asked`. If a settle has begun since, it
    /// may be the reason, and is not told of it: then it would not wait for its own answer.
    pub(crate) fn lost(&self, shard: usize, owner: &(Fence, Handle), asked: Instant) {
        if let Some(entry) = self.lock().shards[shard].get_mut(owner) {
            entry.refused |= entry.settling.is_none_or(|since| since <= asked);
            entry.lost();
        }
    }

    /// Its caller wants it stopped.
    pub(crate) fn cancel(&self, shard: usize, owner: &(Fence, Handle)) {
        if let Some(entry) = self.lock().shards[shard].get(owner) {
            entry.reason.give(Stop::Cancelled);
        }
    }

    /// Gives up every lease that was not renewed in time by our own clock.
    pub(crate) fn expire(&self, now: Instant) {
        for entry in self.lock().shards.iter().flat_map(HashMap::values) {
            if entry.sure_until <= now {
                entry.lost();
            }
        }
    }

    /// Stops every dispatch: this process ends.
    pub(crate) fn drain(&self) {
        for entry in self.lock().shards.iter().flat_map(HashMap::values) {
            entry.reason.give(Stop::Drained);
        }
    }

    fn let_go(&self, shard: usize, owner: &(Fence, Handle)) {
        let mut leases = self.lock();
        if leases.shards[shard].remove(owner).is_some() {
            self.count(&mut leases, shard, -1);
        }
    }

    /// The gauge is set under the lock, or an older count could be the last to be told.
    fn count(&self, leases: &mut Leases, shard: usize, by: isize) {
        let queue = self.queue_of[shard];
        leases.counts[queue] = leases.counts[queue].saturating_add_signed(by);
        metrics::leases_held(self.queues[queue].as_str(), leases.counts[queue]);
    }

    fn lock(&self) -> MutexGuard<'_, Leases> {
        // Whole also after a panic: every change is one insertion, removal or assignment.
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn lost(&self) {
        if self.settling.is_none() {
            self.reason.give(Stop::Lost);
        }
    }
}

impl Reason {
    fn give(&self, why: Stop) {
        if self.first.set(why).is_ok() {
            self.told.notify_waiters();
        }
    }

    fn get(&self) -> Option<Stop> {
        self.first.get().copied()
    }

    /// Ends when there is one.
    async fn wait(&self) -> Stop {
        loop {
            // Hears what is told from here on, also before it is first polled.
            let told = self.told.notified();
            if let Some(why) = self.get() {
                return why;
            }
            told.await;
        }
    }
}

/// A request that this worker owns, for now. Dropped, it is no longer renewed.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The shard it lies in, as a place among the shards of this worker.
    pub(crate) shard: usize,
    /// Proof of ownership, and what is owned.
    pub(crate) owner: (Fence, Handle),
    reason: Arc<Reason>,
    held: Arc<Held>,
}

impl Claim {
    /// Ends when the dispatch is to stop, with the reason. May be dropped and called again.
    pub(crate) fn stopped(&self) -> impl Future<Output = Stop> + Send + '_ {
        self.reason.wait()
    }

    /// Whether nothing more may be published under it, by our own clock or because we were told.
    pub(crate) fn is_lost(&self) -> bool {
        let sure_until = |entry: &Entry| entry.sure_until;
        let until = self.held.lock().shards[self.shard].get(&self.owner).map(sure_until);
        self.reason.get() == Some(Stop::Lost) || until.is_none_or(|it| it <= Instant::now())
    }

    /// Whether a renewal of it was refused. A settle that is unanswered then has been done, or can't be.
    pub(crate) fn is_refused(&self) -> bool {
        let leases = self.held.lock();
        leases.shards[self.shard].get(&self.owner).is_none_or(|entry| entry.refused)
    }

    /// From now on only the answer to its settle says what became of it.
    pub(crate) fn settling(&self) {
        if let Some(entry) = self.held.lock().shards[self.shard].get_mut(&self.owner) {
            entry.settling = Some(Instant::now());
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.held.let_go(self.shard, &self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_core::model::Session;

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn held() -> Arc<Held> {
        Held::new(vec![QueueName::try_from("q").unwrap()], vec![0, 0])
    }

    fn owner(call: u64) -> (Fence, Handle) {
        (Fence::new(Session::from([7; 8]), call), Handle::from([9; 32]))
    }

    fn stop_of(claim: &Claim) -> Option<Stop> {
        claim.reason.get()
    }

    #[test]
    fn a_dropped_claim_is_renewed_no_more() {
        let held = held();
        let claim = held.hold(1, owner(1), Instant::now() + LEASE);
        assert_eq!(held.owners(1), [owner(1)]);
        assert_eq!(held.owners(0), []);
        drop(claim);
        assert_eq!(held.owners(1), []);
        assert_eq!(held.lock().counts, [0]);
    }

    #[test]
    fn dropping_an_old_claim_keeps_a_new_one_of_the_same_request() {
        let held = held();
        let old = held.hold(0, owner(1), Instant::now() + LEASE);
        let new = held.hold(0, owner(2), Instant::now() + LEASE);
        drop(old);
        assert_eq!(held.owners(0), [owner(2)]);
        drop(new);
    }

    #[test]
    fn one_generation_of_an_id_is_not_taken_for_another() {
        let (held, call) = (held(), Fence::new(Session::from([7; 8]), 1));
        // One key, two generations: as when Redis forgot the first and its id was submitted anew.
        let owners = [1, 2].map(|generation| {
            let mut handle = [9; 32];
            handle[8..16].fill(generation);
            (call, Handle::from(handle))
        });
        assert_eq!(owners[0].1.key(), owners[1].1.key());
        let old = held.hold(0, owners[0], Instant::now() + LEASE);
        let new = held.hold(0, owners[1], Instant::now() + LEASE);
        held.lost(0, &owners[0], Instant::now());
        assert_eq!((stop_of(&old), stop_of(&new)), (Some(Stop::Lost), None));
        drop(old);
        assert_eq!(held.owners(0), [owners[1]]);
    }

    #[test]
    fn a_failed_renewal_is_no_lost_lease_until_our_own_clock_says_so() {
        let held = held();
        let start = Instant::now();
        let claim = held.hold(0, owner(1), start + LEASE);
        held.expire(start + LEASE - Duration::from_millis(1));
        assert_eq!((stop_of(&claim), claim.is_lost()), (None, false));
        held.renewed(0, &owner(1), start + 2 * LEASE);
        held.expire(start + LEASE);
        assert_eq!(stop_of(&claim), None);
        held.expire(start + 2 * LEASE);
        assert_eq!((stop_of(&claim), claim.is_lost()), (Some(Stop::Lost), true));
    }

    #[test]
    fn a_claim_whose_time_is_up_is_lost_before_anybody_said_so() {
        assert!(held().hold(0, owner(1), Instant::now()).is_lost());
    }

    #[test]
    fn lost_means_nothing_while_a_settle_is_unanswered() {
        let held = held();
        let claim = held.hold(0, owner(1), Instant::now());
        claim.settling();
        held.lost(0, &owner(1), Instant::now());
        held.expire(Instant::now());
        assert_eq!(stop_of(&claim), None);
    }

    #[test]
    fn only_a_renewal_that_is_refused_tells_that_a_settle_need_not_be_repeated() {
        let held = held();
        let claim = held.hold(0, owner(1), Instant::now());
        let before = Instant::now();
        claim.settling();
        held.expire(Instant::now());
        held.lost(0, &owner(2), Instant::now());
        assert!(!claim.is_refused(), "our own clock says nothing of the settle");
        held.lost(0, &owner(1), before);
        assert!(!claim.is_refused(), "nor does a renewal that the settle overtook");
        held.lost(0, &owner(1), Instant::now());
        assert!(claim.is_refused());
    }

    #[test]
    fn what_is_being_settled_is_renewed_in_its_turn_and_not_for_a_doubt() {
        let held = held();
        let (running, settled) = (
            held.hold(0, owner(1), Instant::now() + LEASE),
            held.hold(0, owner(2), Instant::now() + LEASE),
        );
        settled.settling();
        assert_eq!(held.running(0), [owner(1)]);
        assert_eq!(held.owners(0).len(), 2);
        drop(running);
        assert_eq!(held.running(0), []);
    }

    #[tokio::test]
    async fn the_first_reason_to_stop_counts() {
        let held = held();
        let claim = held.hold(0, owner(1), Instant::now() + LEASE);
        held.cancel(0, &owner(2));
        assert_eq!(stop_of(&claim), None, "another claim is meant");
        held.cancel(0, &owner(1));
        held.drain();
        held.lost(0, &owner(1), Instant::now());
        assert_eq!(claim.stopped().await, Stop::Cancelled);
        assert_eq!(claim.stopped().await, Stop::Cancelled);
    }
}
