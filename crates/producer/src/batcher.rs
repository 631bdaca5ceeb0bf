//! Calls that arrive together travel together.
//!
//! A lone caller is served at once; while its call is under way, those who come gather, and go with
//! the next one. So a batch is as large as the load asks for, and nobody waits for a timer.
//!
//! Each caller waits for a time of its own and is told afterwards whether its item was sent at all:
//! what was not sent in time is never sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// How much one call and one queue may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most items of a call.
    pub(crate) items: usize,
    /// The most bytes of a call; an item above it travels alone.
    pub(crate) bytes: usize,
    /// The most callers that wait for their call to start.
    pub(crate) waiting: usize,
    /// The longest that a caller waits for an answer.
    pub(crate) patience: Duration,
}

/// Why a caller has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unanswered {
    /// Too many wait already. Nothing was sent, and nothing will be.
    #[error("too many wait")]
    Crowded,
    /// The time ran out before it was sent. It never will be.
    #[error("not sent in time")]
    NotSent,
    /// It was sent, and no answer came in time.
    #[error("sent, not answered in time")]
    Sent,
}

/// The callers' side.
#[derive(Debug)]
pub(crate) struct Batcher<I, A> {
    jobs: mpsc::Sender<Job<I, A>>,
    patience: Duration,
}

/// The side that makes the calls.
#[derive(Debug)]
pub(crate) struct Inbox<I, A> {
    jobs: mpsc::Receiver<Job<I, A>>,
    bounds: Bounds,
    /// The first that did not fit into the last call.
    next: Option<Job<I, A>>,
}

/// One item and the caller that waits for its answer.
#[derive(Debug)]
pub(crate) struct Job<I, A> {
    pub(crate) item: I,
    bytes: usize,
    answer: oneshot::Sender<A>,
    taken: Taken,
}

impl<I, A> Job<I, A> {
    /// Tells the caller, if it still waits.
    pub(crate) fn answer(self, answer: A) {
        // A caller that left wants nothing.
        let _ = self.answer.send(answer);
    }
}

/// Decides once, for both sides, who was first: the call that takes the item, or the caller that leaves.
#[derive(Clone, Debug)]
struct Taken(Arc<AtomicBool>);

impl Taken {
    /// Whether this is the first to take it.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// Makes both sides.
pub(crate) fn channel<I, A>(bounds: Bounds) -> (Batcher<I, A>, Inbox<I, A>) {
    let (sender, jobs) = mpsc::channel(bounds.waiting);
    (Batcher { jobs: sender, patience: bounds.patience }, Inbox { jobs, bounds, next: None })
}

impl<I, A> Batcher<I, A> {
    /// Sends an item of so many bytes with the next call, and waits for its answer.
    ///
    /// Dropped before the item was sent, it will not be sent.
    pub(crate) async fn ask(&self, item: I, bytes: usize) -> Result<A, Unanswered> {
        self.send(item, bytes)?.answer().await
    }

    /// Puts an item into the queue now, behind those that stand there, and gives the place to wait at.
    pub(crate) fn send(&self, item: I, bytes: usize) -> Result<Place<A>, Unanswered> {
        let (answer, answered) = oneshot::channel();
        let taken = Taken(Arc::new(AtomicBool::new(false)));
        let leaving = Leaving(taken.clone());
        self.jobs.try_send(Job { item, bytes, answer, taken }).map_err(|err| match err {
            TrySendError::Full(_) => Unanswered::Crowded,
            TrySendError::Closed(_) => Unanswered::NotSent,
        })?;
        Ok(Place { answered, leaving, until: Instant::now() + self.patience })
    }
}

/// Where a caller waits; dropped before its item was sent, that will not be sent.
#[derive(Debug)]
pub(crate) struct Place<A> {
    answered: oneshot::Receiver<A>,
    leaving: Leaving,
    until: Instant,
}

impl<A> Place<A> {
    /// Waits for the answer.
    pub(crate) async fn answer(self) -> Result<A, Unanswered> {
        match timeout_at(self.until, self.answered).await {
            Ok(Ok(answer)) => Ok(answer),
            // In time or not: without an answer the question is whether it went out.
            _ if self.leaving.0.take() => Err(Unanswered::NotSent),
            _ => Err(Unanswered::Sent),
        }
    }
}

/// Takes the item out of the queue when its caller leaves.
#[derive(Debug)]
struct Leaving(Taken);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.take();
    }
}

impl<I, A> Inbox<I, A> {
    /// Waits until somebody waits for a call. False when nobody can come any more.
    pub(crate) async fn wait(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.jobs.recv().await;
        }
        self.next.is_some()
    }

    /// Takes those who wait now and fit into one call. From here on their items count as sent.
    ///
    /// May be empty: callers leave.
    pub(crate) fn take(&mut self) -> Vec<Job<I, A>> {
        let mut group = Vec::new();
        let mut bytes = 0_usize;
        while group.len() < self.bounds.items {
            let job = self.next.take().or_else(|| self.jobs.try_recv().ok());
            let Some(job) = job else { break };
            self.add(job, &mut group, &mut bytes);
            if self.next.is_some() {
                break;
            }
        }
        group
    }

    /// Takes a job into the group, unless its caller left; keeps it for the next where it does not fit.
    fn add(&mut self, job: Job<I, A>, group: &mut Vec<Job<I, A>>, bytes: &mut usize) {
        if !group.is_empty() && *bytes + job.bytes > self.bounds.bytes {
            self.next = Some(job);
        } else if job.taken.take() {
            *bytes += job.bytes;
            group.push(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { items: 3, bytes: 100, waiting: 8, patience: Duration::from_secs(60) };

    type Sides = (Arc<Batcher<usize, usize>>, Inbox<usize, usize>);

    fn sides(bounds: Bounds) -> Sides {
        let (batcher, inbox) = channel(bounds);
        (Arc::new(batcher), inbox)
    }

    /// Lets callers ask, in order, until all of them stand in the queue.
    async fn ask_all(sides: &Sides, sizes: &[usize]) -> JoinSet<Result<usize, Unanswered>> {
        let mut callers = JoinSet::new();
        for (at, &bytes) in sizes.iter().enumerate() {
            let batcher = Arc::clone(&sides.0);
            callers.spawn(async move { batcher.ask(at, bytes).await });
            while sides.1.jobs.len() <= at {
                tokio::task::yield_now().await;
            }
        }
        callers
    }

    async fn next_items(inbox: &mut Inbox<usize, usize>) -> Vec<usize> {
        assert!(inbox.wait().await);
        let group = inbox.take();
        let items = group.iter().map(|job| job.item).collect();
        for job in group {
            let item = job.item;
            job.answer(item * 10);
        }
        items
    }

    async fn taken(inbox: &mut Inbox<usize, usize>) -> Vec<Job<usize, usize>> {
        assert!(inbox.wait().await);
        inbox.take()
    }

    #[tokio::test]
    async fn what_waits_travels_together_up_to_the_bound_and_each_gets_its_own_answer() {
        let mut sides = sides(BOUNDS);
        let callers = ask_all(&sides, &[1; 5]).await;
        assert_eq!(next_items(&mut sides.1).await, [0, 1, 2]);
        assert_eq!(next_items(&mut sides.1).await, [3, 4]);
        let mut answers = callers.join_all().await;
        answers.sort_by_key(|answer| answer.unwrap());
        assert_eq!(answers, [Ok(0), Ok(10), Ok(20), Ok(30), Ok(40)]);
    }

    #[tokio::test]
    async fn bytes_bound_a_call_and_what_is_too_large_travels_alone() {
        let mut sides = sides(BOUNDS);
        let _callers = ask_all(&sides, &[60, 40, 1, 1000, 1]).await;
        assert_eq!(next_items(&mut sides.1).await, [0, 1]);
        assert_eq!(next_items(&mut sides.1).await, [2]);
        assert_eq!(next_items(&mut sides.1).await, [3]);
        assert_eq!(next_items(&mut sides.1).await, [4]);
    }

    #[tokio::test]
    async fn what_was_not_sent_in_time_is_never_sent() {
        let bounds = Bounds { patience: Duration::from_millis(10), ..BOUNDS };
        let (batcher, mut inbox) = sides(bounds);
        assert_eq!(batcher.ask(7, 1).await, Err(Unanswered::NotSent));
        drop(batcher);
        assert!(inbox.wait().await);
        assert!(inbox.take().is_empty(), "the job that nobody waits for is passed over");
        assert!(!inbox.wait().await, "nobody can come any more");
    }

    #[tokio::test]
    async fn what_was_sent_and_not_answered_is_told_apart() {
        let bounds = Bounds { patience: Duration::from_millis(10), ..BOUNDS };
        let (batcher, mut inbox) = sides(bounds);
        let (answer, group) = tokio::join!(batcher.ask(7, 1), taken(&mut inbox));
        assert_eq!(answer, Err(Unanswered::Sent));
        assert_eq!(group.len(), 1);
    }

    #[tokio::test]
    async fn a_dropped_call_leaves_its_callers_with_sent_at_once() {
        let (batcher, mut inbox) = sides(BOUNDS);
        let (answer, ()) = tokio::join!(batcher.ask(7, 1), async { drop(taken(&mut inbox).await) });
        assert_eq!(answer, Err(Unanswered::Sent));
    }

    #[tokio::test]
    async fn a_caller_that_leaves_before_its_item_is_sent_takes_it_along() {
        let mut sides = sides(BOUNDS);
        let mut callers = ask_all(&sides, &[1]).await;
        callers.shutdown().await;
        assert!(taken(&mut sides.1).await.is_empty());
    }

    #[tokio::test]
    async fn a_crowded_queue_refuses_at_once() {
        let sides = sides(Bounds { waiting: 2, ..BOUNDS });
        let _callers = ask_all(&sides, &[1, 1]).await;
        assert_eq!(sides.0.ask(9, 1).await, Err(Unanswered::Crowded));
    }
}
