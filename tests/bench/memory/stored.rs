//! In Redis: waiting, in flight, finished.

use holdfast_core::script::MAX_ITEMS;

use crate::Effort;
use crate::protocol::holdfast::{Holdfast, LEASE};
use crate::report::Row;
use crate::server::{self, Spent};

/// Bodies and answers, in bytes.
const SIZES: [(usize, usize); 3] = [(200, 200), (1 << 10, 200), (16 << 10, 4 << 10)];

/// Bytes in use at one size, state by state.
#[derive(Clone, Copy)]
struct Used {
    requests: usize,
    pending: f64,
    leased: f64,
    finished: f64,
    /// Bytes of what is kept of one that is finished: record, ticket, their fields, its member.
    kept: f64,
}

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let mut rows = Vec::new();
    for (body, answer) in SIZES {
        // Half-way between two sizes of a table of Redis.
        let few: usize = match effort {
            _ if body > 4 << 10 => 6_144,
            Effort::Quick => 24_576,
            Effort::Full => 98_304,
        };
        eprintln!("memory in Redis: bodies of {body} B, answers of {answer} B");
        let used = [used(few, body, answer).await, used(2 * few, body, answer).await];
        rows.extend(told(body, answer, used));
    }
    rows
}

fn told(body: usize, answer: usize, [few, many]: [Used; 2]) -> Vec<Row> {
    let slope =
        |read: fn(&Used) -> f64| (read(&many) - read(&few)) / (many.requests - few.requests) as f64;
    let row = |what: &str, slope: f64, read: fn(&Used) -> f64| {
        Row::new(format!("Redis, {what}, a request"), "B", slope)
            .note(format!("between {} and {} requests", few.requests, many.requests))
            .samples("requests", vec![few.requests as f64, many.requests as f64])
            .samples("bytes in use", vec![read(&few), read(&many)])
    };
    let (pending, leased) = (slope(|it| it.pending), slope(|it| it.leased));
    vec![
        row(&format!("waiting with a body of {body} B"), pending, |it| it.pending)
            .at_most(1.3 * body as f64 + 450.0),
        row(&format!("in flight over waiting, {body} B"), leased - pending, |it| it.leased)
            .at_most(64.0),
        row(&format!("finished with an answer of {answer} B"), slope(|it| it.finished), |it| {
            it.finished
        })
        .at_most(answer as f64 + 500.0)
        .floor(
            many.kept,
            "the bytes of record, ticket, two fields and member alone; the rest is what Redis takes for three entries of its tables",
        ),
    ]
}

/// Takes so many through their states on a server of their own.
async fn used(requests: usize, body: usize, answer: usize) -> Used {
    let server = server::start(|_| {}).await;
    let url = server.url().to_owned();
    let mut side = Holdfast::new(server, &url, body).await.with_answer(answer);
    side.pile_up(requests).await;
    let pending = settled(&side).await;
    let mut held = Vec::new();
    while held.len() < requests {
        let (fence, claimed) = side.claim(MAX_ITEMS, LEASE).await;
        assert!(!claimed.leases.is_empty(), "there is enough");
        held.extend(claimed.leases.iter().map(|lease| (fence, lease.handle)));
    }
    let leased = settled(&side).await;
    for held in held.chunks(64) {
        side.ack_all(held).await;
    }
    let finished = settled(&side).await;
    let kept = kept(&side).await;
    Used { requests, pending, leased, finished, kept }
}

/// The lengths of all that is kept of one that is finished.
async fn kept(side: &Holdfast) -> f64 {
    let answer = side.server.command(&["ZRANGE", &side.keys.finished, "0", "0"]).await;
    let first = answer.array().and_then(|members| members.first()?.bytes()).expect("one");
    let key = &first[16..];
    let mut all = first.len() + 2 * key.len();
    for hash in [&side.keys.result, &side.keys.ticket] {
        let length = side.server.command(&[b"HSTRLEN".as_slice(), hash.as_bytes(), key]).await;
        all += length.int().and_then(|length| usize::try_from(length).ok()).expect("a length");
    }
    all as f64
}

/// Bytes in use once Redis has ended what it does beside: tables that grow are moved by and by, buffers are let go.
async fn settled(side: &Holdfast) -> f64 {
    let mut last = Spent::by(&side.server).await.memory;
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        let now = Spent::by(&side.server).await.memory;
        if (now - last).abs() < 64.0 * 1024.0 {
            return now;
        }
        last = now;
    }
}
