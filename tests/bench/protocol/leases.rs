//! Leases that are kept, and leases that lapse.

use std::time::{Duration, Instant};

use holdfast_core::model::{Fence, Handle};
use holdfast_core::script::{MAX_ITEMS, Reclaim, Renew, RenewReply};

use super::cycle::BATCH;
use super::holdfast::{Holdfast, LEASE};
use crate::Effort;
use crate::report::{Row, median};
use crate::server::{self, Spent};

/// Leases that are held at once.
const LEASES: usize = 10_000;

/// How often a worker renews within one lease.
const RENEWALS: f64 = 3.0;

/// So short that it is over when the last is claimed.
const SHORT: Duration = Duration::from_millis(50);

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let rounds = if effort == Effort::Quick { 5 } else { 15 };
    let server = server::start(|_| {}).await;
    let url = server.url().to_owned();
    let mut side = Holdfast::new(server, &url, 1 << 10).await;
    let held = side.hold(LEASES, LEASE).await;
    let mut renewals = Vec::new();
    for round in 0..=rounds {
        eprintln!("leases: round {round} of {rounds}");
        let each = renewed(&side, &held).await;
        if round > 0 {
            renewals.push(each);
        }
    }
    // So many in each third of a lease, of the millions of µs that a core has in it.
    let third = LEASE.as_secs_f64() * 1e6 / RENEWALS;
    let share = 100.0 * median(&renewals) * LEASES as f64 / third;
    let mut rows = vec![
        Row::new("renewing 10,000 leases of 30 s, a share of the server's core", "%", share)
            .at_most(0.3)
            .note(format!("{:.2} us a lease", median(&renewals)))
            .samples("us a lease", renewals),
    ];
    rows.push(reclaimed(&mut side).await);
    rows
}

/// Server time of one renewal, in µs.
async fn renewed(side: &Holdfast, held: &[(Fence, Handle)]) -> f64 {
    let before = Spent::by(&side.server).await;
    for held in held.chunks(MAX_ITEMS) {
        let renew = Renew { shard: &side.keys, lease: LEASE, held };
        let replies = renew.run(&side.redis).await.expect("renewals");
        let is_held = |reply: &RenewReply| matches!(reply, RenewReply::Held(_));
        assert!(replies.iter().all(is_held), "each is still held");
    }
    Spent::by(&side.server).await.since(before).cpu / held.len() as f64
}

/// Server time of taking one lapsed lease back, and how long the longest call took.
async fn reclaimed(side: &mut Holdfast) -> Row {
    let lapsed = side.hold(LEASES, SHORT).await.len();
    tokio::time::sleep(SHORT).await;
    let (before, mut back) = (Spent::by(&side.server).await, 0);
    let mut longest = Duration::ZERO;
    while back < lapsed {
        let began = Instant::now();
        let reclaim = Reclaim { shard: &side.keys, limit: MAX_ITEMS, named: &[] };
        let taken = reclaim.run(&side.redis).await.expect("a reclaim").len();
        longest = longest.max(began.elapsed());
        assert!(taken > 0, "lapsed leases are found");
        back += taken;
    }
    let each = Spent::by(&side.server).await.since(before).cpu / back as f64;
    Row::new("taking back a lapsed lease, 256 a call: server CPU", "us", each)
        .note(format!("the longest call {:.1} ms, its way included", longest.as_secs_f64() * 1e3))
}

impl Holdfast {
    /// Submits so many and leases them all.
    async fn hold(&mut self, count: usize, lease: Duration) -> Vec<(Fence, Handle)> {
        self.fill(count.div_ceil(BATCH)).await;
        let mut held = Vec::new();
        while held.len() < count {
            let (fence, claimed) = self.claim((count - held.len()).min(MAX_ITEMS), lease).await;
            assert!(!claimed.leases.is_empty(), "there is enough");
            held.extend(claimed.leases.iter().map(|lease| (fence, lease.handle)));
        }
        held
    }
}
