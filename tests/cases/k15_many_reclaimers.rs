//! K15: many reclaimers meet the same entries at the same moment.
//!
//! Where an entry is read in one step and moved in another, two that look at once move it twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_core::model::{Failure, FailureCode, Fence, Session};
use holdfast_core::script::{
    Claim, ClaimReply, Lease, MAX_ITEMS, Settle, SettleItem, SettleKind, SettleReply,
};
use holdfast_testkit::eventually;

use crate::fleet::{Fleet, Role, SOON, Setup};
use crate::pace::alone;
use crate::stage::{self, ByHand};

const EACH: usize = 1000;
const RECLAIMERS: usize = 8;

/// When all of it falls due, from its claim: late enough for the reclaimers to be there.
const DUE: Duration = Duration::from_secs(4);

/// Within this each reclaimer looks several times.
const LOOKS: Duration = Duration::from_millis(300);

/// Claims so many, as a worker that will never be heard of again.
async fn claim(hand: &ByHand, count: usize) -> Vec<(Fence, Lease)> {
    let (session, mut claimed) = (Session::random(), Vec::new());
    for call in 1.. {
        let (fence, free) = (Fence::new(session, call), MAX_ITEMS.min(count - claimed.len()));
        let claim = Claim {
            shard: &hand.keys,
            fence,
            free,
            lease: DUE,
            budget: usize::MAX,
            may_take_suspect: false,
            trusted_until: 0,
            along: 0,
        };
        match claim.run(&hand.redis).await.expect("an answer") {
            ClaimReply::Claimed(got) => {
                claimed.extend(got.leases.into_iter().map(|lease| (fence, lease)))
            }
            ClaimReply::Stale => panic!("a claim of ours was overtaken"),
        }
        if claimed.len() == count {
            break;
        }
    }
    claimed
}

/// Sends leased requests into their back-off.
async fn retry(hand: &ByHand, leases: &[(Fence, Lease)]) {
    let failure = Failure { code: FailureCode::Status, status: 503 };
    for some in leases.chunks(MAX_ITEMS) {
        let item = |(fence, lease): &(Fence, Lease)| SettleItem {
            fence: *fence,
            handle: lease.handle,
            kind: SettleKind::Retry { delay: DUE, failure },
        };
        let items: Vec<SettleItem> = some.iter().map(item).collect();
        let replies =
            Settle { shard: &hand.keys, items: &items }.run(&hand.redis).await.expect("an answer");
        assert!(replies.iter().all(|reply| *reply == SettleReply::Done));
    }
}

async fn sum(fleet: &Fleet, roles: &[Role], metric: &str) -> f64 {
    let mut sum = 0.0;
    for role in roles {
        sum += fleet.metric(role, metric, "").await;
    }
    sum
}

/// 1000 lapsed leases and 1000 due retries, 8 reclaimers, no worker: each entry moves once.
#[tokio::test(flavor = "multi_thread")]
async fn eight_reclaimers_move_each_of_2000_entries_once() {
    let _alone = alone().await;
    let setup =
        Setup { reclaimer: stage::reclaimer(Duration::from_millis(50)), ..Setup::default() };
    let fleet = stage::fleet(setup).await;
    let hand = ByHand::on(&fleet);
    let ids = stage::ids("k15", 2 * EACH);
    for some in ids.chunks(100) {
        stage::all(some.iter().map(|id| async { fleet.submit(id, &stage::payload(id)).await }))
            .await;
    }
    let reclaimers: Vec<Role> = (0..RECLAIMERS).map(|_| fleet.reclaimer()).collect();
    for reclaimer in &reclaimers {
        fleet.ready(reclaimer.ops).await;
    }
    let retried = claim(&hand, EACH).await;
    retry(&hand, &retried).await;
    let leased_at = Instant::now();
    let lapsing = claim(&hand, EACH).await;
    assert_eq!(
        (fleet.count("delayed").await, fleet.count("leased").await),
        (EACH as i64, EACH as i64)
    );

    // Redis answers nobody while it falls due: then each reclaimer's look waits there, and all of them find all of it.
    crate::pace::pass(DUE.saturating_sub(leased_at.elapsed() + LOOKS)).await;
    fleet.redis.pause();
    crate::pace::pass(DUE.saturating_sub(leased_at.elapsed()) + LOOKS).await;
    fleet.redis.resume();
    fleet.wait_for_count("pending", 2 * EACH as i64, DUE + SOON).await;
    assert_eq!((fleet.count("delayed").await, fleet.count("leased").await), (0, 0));
    let handles: BTreeSet<_> =
        retried.iter().chain(&lapsing).map(|(_, lease)| lease.handle).collect();
    assert_eq!(handles.len(), 2 * EACH, "one request was leased twice");
    eventually("the reclaimers have counted", SOON, async || {
        let counts = [
            sum(&fleet, &reclaimers, "holdfast_redeliveries_total").await,
            sum(&fleet, &reclaimers, "holdfast_lapses_total").await,
            sum(&fleet, &reclaimers, "holdfast_forgiven_total").await,
        ];
        // More than there are would never become less.
        if counts[0] >= EACH as f64 { Ok(counts) } else { Err(format!("{counts:?}")) }
    })
    .await;
    // A pass more of each: nothing is moved, or counted, a second time.
    crate::pace::pass(Duration::from_millis(500)).await;
    let charged = sum(&fleet, &reclaimers, "holdfast_lapses_total").await;
    let forgiven = sum(&fleet, &reclaimers, "holdfast_forgiven_total").await;
    assert_eq!(sum(&fleet, &reclaimers, "holdfast_redeliveries_total").await, EACH as f64);
    assert_eq!(charged + forgiven, EACH as f64, "{charged} lapses, {forgiven} forgiven");
    let working = shares(&fleet, &reclaimers).await;
    assert!(working > 1, "one reclaimer did all of it: nothing was tried");
    each_waits_once(&fleet, &hand, &ids).await;
}

/// How many of them gave something back.
async fn shares(fleet: &Fleet, reclaimers: &[Role]) -> usize {
    let mut working = 0;
    for reclaimer in reclaimers {
        let share = fleet.metric(reclaimer, "holdfast_redeliveries_total", "").await;
        working += usize::from(share > 0.0);
    }
    working
}

/// Every request waits once, with what it was charged, and can still end.
async fn each_waits_once(fleet: &Fleet, hand: &ByHand, ids: &[String]) {
    let members = fleet.redis.command(&["ZRANGE", &hand.keys.pending, "0", "-1"]).await;
    let members =
        members.array().expect("members").iter().filter_map(|it| Some(it.bytes()?.to_vec()));
    let keys: BTreeSet<Vec<u8>> = members.map(|member| member[16..].to_vec()).collect();
    assert_eq!(keys.len(), ids.len(), "a request waits twice under two names");
    for id in ids.iter().step_by(101) {
        let status = fleet.status(id).await;
        assert_eq!((&status["state"], &status["attempts"]), (&"pending".into(), &1.into()), "{id}");
        assert!(status["lapses"].as_u64() <= Some(1), "{id}: {status}");
    }
}
