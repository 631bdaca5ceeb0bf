//! A backlog of 10,000 beside one of millions, each on a server of its own.

use crate::Effort;
use crate::growth::SIZE;
use crate::protocol::cycle::{BATCH, Costs, measure, ratios};
use crate::protocol::holdfast::{Holdfast, LEASE};
use crate::report::{Row, median};
use crate::server::{self, Spent};
use crate::spending;

/// The backlog that others are compared with.
const SMALL: usize = 10_000;

/// Between these two sizes it is measured what a request takes: at both, tables of Redis are filled alike.
const WEIGHED: [usize; 2] = [49_152, 98_304];

/// A script that takes longer holds everybody up, in µs.
const TOO_LONG: u64 = 5_000;

/// What was measured at one size, and at the small one by turns with it.
#[derive(Default)]
struct Measured {
    claim: [Vec<f64>; 2],
    whole: [Costs; 2],
}

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let (sizes, rounds): (&[usize], usize) = match effort {
        Effort::Quick => (&[100_000], 3),
        Effort::Full => (&[1_000_000, 5_000_000], 5),
    };
    let available = spending::available();
    let (mut small, mut large) = (side().await, side().await);
    let each = weigh(&mut large).await;
    let fits = (available / 2.0 / each) as usize;
    let mut rows = vec![
        Row::new("the largest backlog that fits half of memory", "requests", fits as f64).note(
            format!("{each:.0} B a request of {SIZE} B, {:.1} GB available", available / 1e9),
        ),
    ];
    small.pile_up(SMALL).await;
    let (mut there, mut held) = (WEIGHED[1], false);
    for &size in sizes {
        if held {
            rows.push(Row::not_measured(
                format!("a backlog of {size}"),
                "it does not fit half of memory",
            ));
            continue;
        }
        let (size, cut) = if size > fits { (fits, true) } else { (size, false) };
        held = cut;
        server::log_from(&large.server, TOO_LONG).await;
        eprintln!("backlog: up to {size}");
        large.pile_up(size.saturating_sub(there)).await;
        there = size;
        let filled = server::slow(&large.server).await;
        server::log_from(&large.server, TOO_LONG).await;
        let mut measured = Measured::default();
        for round in 0..=rounds {
            eprintln!("a backlog of {size} / {SMALL}: round {round} of {rounds}");
            let claims = [claims(&mut small).await, claims(&mut large).await];
            let wholes =
                [measure(&mut small, 100, BATCH).await, measure(&mut large, 100, BATCH).await];
            if round > 0 {
                for (all, cost) in measured.claim.iter_mut().zip(claims) {
                    all.push(cost);
                }
                for (all, cost) in measured.whole.iter_mut().zip(wholes) {
                    all.push(cost);
                }
            }
        }
        rows.extend(measured.told(size));
        rows.push(longest(
            &format!("a backlog of {size}, as it is made: the longest script"),
            &filled,
        ));
        let slow = server::slow(&large.server).await;
        rows.push(longest(
            &format!("a backlog of {size}, as it is worked on: the longest script"),
            &slow,
        ));
    }
    rows
}

impl Measured {
    fn told(self, size: usize) -> Vec<Row> {
        let compared = |what: &str, small: Vec<f64>, large: Vec<f64>| {
            let ratios = ratios(&large, &small);
            Row::new(
                format!("a backlog of {size} / {SMALL}: server CPU of {what}"),
                "x",
                median(&ratios),
            )
            .note(format!("{:.1} and {:.1} us", median(&large), median(&small)))
            .samples("large", large)
            .samples("small", small)
            .samples("ratios", ratios)
        };
        let ([small, large], [few, many]) = (self.claim, self.whole);
        vec![
            compared("a claim of 64", small, large).at_most(2.8),
            compared("a whole request", few.cpu, many.cpu).at_most(2.5),
            compared("a whole request, by the clock", few.time, many.time),
        ]
    }
}

fn longest(what: &str, slow: &[server::Slow]) -> Row {
    let row = match slow.first() {
        Some(first) => Row::new(what, "ms", first.ms).note(format!(
            "{}, and {} more took over 5 ms",
            first.script,
            slow.len() - 1
        )),
        None => Row::new(what, "ms", 0.0).note("none took over 5 ms"),
    };
    row.at_most(TOO_LONG as f64 / 1000.0)
        .samples("over 5 ms", slow.iter().map(|it| it.ms).collect())
}

async fn side() -> Holdfast {
    let server = server::start(|_| {}).await;
    let url = server.url().to_owned();
    Holdfast::new(server, &url, SIZE).await
}

/// Bytes that a request takes while it waits.
async fn weigh(side: &mut Holdfast) -> f64 {
    let [first, second] = WEIGHED;
    side.pile_up(first).await;
    let before = Spent::by(&side.server).await;
    side.pile_up(second - first).await;
    Spent::by(&side.server).await.since(before).memory / (second - first) as f64
}

/// Server time of a claim of a batch, in µs. The backlog is the same afterwards.
async fn claims(side: &mut Holdfast) -> f64 {
    const CLAIMS: usize = 50;
    let (mut claimed, before) = (Vec::new(), Spent::by(&side.server).await);
    for _ in 0..CLAIMS {
        claimed.push(side.claim(BATCH, LEASE).await);
    }
    let each = Spent::by(&side.server).await.since(before).cpu / CLAIMS as f64;
    for (fence, claimed) in claimed {
        assert_eq!(claimed.leases.len(), BATCH, "there is enough");
        side.ack(fence, claimed.leases.iter().map(|lease| lease.handle)).await;
    }
    side.sweep_all().await;
    side.fill(CLAIMS).await;
    each
}
