//! Sixteen workers at the bell of one queue: claims that find nothing though work is there.
//!
//! Sessions that do what a worker's loop does: wait at the bell for one; told that there is more, claim for all slots
//! at once; work; claim again.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_core::redis::Bell;
use rand::RngExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Effort;
use crate::growth::SIZE;
use crate::protocol::holdfast::{Holdfast, LEASE};
use crate::report::Row;
use crate::server;

/// Workers on the queue.
const WORKERS: usize = 16;

/// Slots of each.
const SLOTS: usize = 8;

/// How long a call takes.
const CALL: Duration = Duration::from_millis(2);

/// How long one wait at the bell lasts.
const WAIT: Duration = Duration::from_secs(1);

/// Submits at once, at most.
const MOST_AT_ONCE: usize = 64;

/// What came of claims.
#[derive(Clone, Copy, Debug, Default)]
struct Claims {
    all: usize,
    /// Found nothing while something was there that it might have taken.
    blind: usize,
    /// Rung for, and found nothing any more.
    late_at_bell: usize,
    /// Told that there was more, and found nothing any more.
    late_for_more: usize,
}

impl AddAssign for Claims {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.blind += other.blind;
        self.late_at_bell += other.late_at_bell;
        self.late_for_more += other.late_for_more;
    }
}

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let requests = if effort == Effort::Quick { 10_000 } else { 100_000 };
    eprintln!("{WORKERS} workers at one bell: {requests} requests");
    let server = server::start(|_| {}).await;
    let url = server.url().to_owned();
    let mut side = Holdfast::new(server, &url, SIZE).await;
    let left = Arc::new(AtomicUsize::new(requests));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(worked(side.another(), Arc::clone(&left)));
    }
    let (mut submitted, mut bursts) = (0, Vec::new());
    while submitted < requests {
        let count = rand::rng().random_range(1..=MOST_AT_ONCE).min(requests - submitted);
        let batch = side.batch(count);
        side.submit(&batch).await;
        submitted += count;
        bursts.push(count as f64);
        // One after another, or with a pause in which all are served and the workers wait again.
        sleep(Duration::from_millis(rand::rng().random_range(0..=4))).await;
    }
    let each = workers.join_all().await;
    let mut claims = Claims::default();
    each.iter().for_each(|worker| claims += *worker);
    let samples = |read: fn(&Claims) -> usize| each.iter().map(|it| read(it) as f64).collect();
    let what = format!("{WORKERS} workers on one queue, claims that found nothing");
    let told = |row: Row| row.note(format!("of {} claims, {requests} requests", claims.all));
    vec![
        told(Row::new(format!("{what} though work was there"), "", claims.blind as f64))
            .at_most(0.0)
            .samples("claims of each", samples(|it| it.all))
            .samples("blind ones of each", samples(|it| it.blind))
            .samples("submits at once", bursts),
        told(Row::new(
            format!("{what}: rung for, others were first"),
            "",
            claims.late_at_bell as f64,
        ))
        .samples("of each", samples(|it| it.late_at_bell)),
        told(Row::new(
            format!("{what}: told of more, others were first"),
            "",
            claims.late_for_more as f64,
        ))
        .samples("of each", samples(|it| it.late_for_more)),
    ]
}

/// One worker, until none is left.
async fn worked(mut side: Holdfast, left: Arc<AtomicUsize>) -> Claims {
    let bell = Bell::open(&side.redis).expect("a waiter");
    let (mut claims, mut more) = (Claims::default(), true);
    while left.load(Ordering::Relaxed) > 0 {
        let mut held = Vec::new();
        // As many claims as its slots take: the first at the bell if nothing is known to be there.
        loop {
            let (told, asked) = (more, Instant::now());
            let (fence, claimed) = match told {
                true => side.claim(SLOTS - held.len(), LEASE).await,
                false => side.claim_at(&bell, WAIT).await,
            };
            more = claimed.more;
            claims.all += 1;
            if claimed.leases.is_empty() {
                claims.blind += usize::from(more);
                claims.late_for_more += usize::from(told);
                claims.late_at_bell += usize::from(!told && asked.elapsed() < WAIT);
            }
            held.extend(claimed.leases.iter().map(|lease| (fence, lease.handle)));
            if !more || held.len() == SLOTS {
                break;
            }
        }
        if held.is_empty() {
            continue;
        }
        sleep(CALL).await;
        let count = held.len();
        side.ack_all(&held).await;
        left.fetch_sub(count, Ordering::Relaxed);
    }
    claims
}
