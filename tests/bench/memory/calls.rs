//! In a worker: requests in flight at a stand-in that does not answer. And in a bare client that has as many there.

use std::time::Duration;

use tokio::time::sleep;

use crate::Effort;
use crate::fleet::{Fleet, Role};
use crate::gateway::Gateway;
use crate::protocol::holdfast::Holdfast;
use crate::report::Row;
use crate::server;
use crate::spending;

use super::bare::Bare;

/// In flight at once, where each has a connection of its own.
const OVER_HTTP1: [usize; 3] = [1_000, 4_000, 8_000];

/// In flight at once, where many share one.
const OVER_HTTP2: [usize; 3] = [5_000, 20_000, 50_000];

/// The bodies, in bytes.
const SIZES: [usize; 2] = [1 << 10, 16 << 10];

/// What a process takes with so many in flight.
#[derive(Clone, Copy)]
struct Taken {
    requests: usize,
    memory: f64,
    files: usize,
}

pub(super) async fn rows(effort: Effort) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in SIZES {
        rows.extend(beside("1", &OVER_HTTP1, size).await);
    }
    let over_http2 = if effort == Effort::Quick { &OVER_HTTP2[..2] } else { &OVER_HTTP2 };
    rows.extend(beside("2", over_http2, SIZES[0]).await);
    rows
}

/// A worker, and a bare client with as many in flight.
async fn beside(http: &str, steps: &[usize], size: usize) -> Vec<Row> {
    let floor = bare(http == "2", steps, size).await;
    told(
        if http == "2" { "HTTP/2" } else { "HTTP/1.1" },
        size,
        in_flight(http, steps, size).await,
        &floor,
    )
}

/// What was found: idle first, and the limit of open files.
struct Found {
    taken: Vec<Taken>,
    file_limit: String,
}

fn told(http: &str, size: usize, found: Found, floor: &[Taken]) -> Vec<Row> {
    let Found { taken, file_limit } = found;
    let (idle, busy) = (taken[0], &taken[1..]);
    let most = busy.last().copied().unwrap_or(idle);
    let connections = most.files - idle.files;
    let (ours, bare) = (slope(busy), slope(&floor[1..]));
    vec![
        Row::new(
            format!("worker, {http}, body of {size} B: memory a request in flight"),
            "B",
            ours,
        )
        .at_most((2 * size + (8 << 10)) as f64)
        .floor(bare, format!("the same calls from a process that does nothing else, over the same library: its buffers and state of {http}, and the body once"))
        .note(format!(
            "{:.1} MB with {}, {:.1} MB idle; {:.2} of a bare client's",
            most.memory / 1e6,
            most.requests,
            idle.memory / 1e6,
            ours / bare
        ))
        .samples("requests", numbers(&taken, |it| it.requests as f64))
        .samples("bytes", numbers(&taken, |it| it.memory)),
        Row::new(
            format!("bare client, {http}, body of {size} B: memory a call in flight"),
            "B",
            bare,
        )
        .note("the same client of HTTP, and nothing else")
        .samples("requests", numbers(floor, |it| it.requests as f64))
        .samples("bytes", numbers(floor, |it| it.memory)),
        Row::new(
            format!("worker, {http}, body of {size} B: in flight at once"),
            "",
            most.requests as f64,
        )
        .at_least(most.requests as f64)
        .note(format!(
            "{connections} connections; it needs {} open files and may have {file_limit}",
            most.files
        ))
        .samples("open files", numbers(&taken, |it| it.files as f64)),
    ]
}

fn numbers(taken: &[Taken], read: fn(&Taken) -> f64) -> Vec<f64> {
    taken.iter().map(read).collect()
}

/// The slope of the line that fits best.
fn slope(taken: &[Taken]) -> f64 {
    let count = taken.len() as f64;
    let middle = |read: fn(&Taken) -> f64| taken.iter().map(read).sum::<f64>() / count;
    let (x, y) = (middle(|it| it.requests as f64), middle(|it| it.memory));
    let both = taken.iter().map(|it| (it.requests as f64 - x) * (it.memory - y)).sum::<f64>();
    both / taken.iter().map(|it| (it.requests as f64 - x).powi(2)).sum::<f64>()
}

/// A worker with so many in flight, and with more.
async fn in_flight(http: &str, steps: &[usize], size: usize) -> Found {
    let most = steps.last().copied().unwrap_or_default();
    let redis = server::start(|_| {}).await;
    let gateway = Gateway::start().await;
    gateway.hold(true).await;
    let settings = format!(
        "[worker]\nconcurrency = {most}\n[queues.bench]\ntarget = \"{}\"\nhttp = \"{http}\"\n",
        gateway.url()
    );
    let fleet = Fleet::new(&redis, &settings);
    let worker = fleet.start(Role::Worker).await;
    let url = redis.url().to_owned();
    let mut side = Holdfast::new(redis, &url, size).await;
    let mut taken = vec![look(worker.pid(), 0).await];
    for &requests in steps {
        eprintln!("memory in a worker over HTTP {http}: {requests} in flight, bodies of {size} B");
        let there = taken.last().map_or(0, |taken| taken.requests);
        side.pile_up(requests - there).await;
        gateway.until(requests as u64, 0).await;
        taken.push(look(worker.pid(), requests).await);
    }
    Found { taken, file_limit: spending::file_limit(worker.pid()) }
}

/// A bare client with so many in flight, and with more.
async fn bare(http2: bool, steps: &[usize], size: usize) -> Vec<Taken> {
    let gateway = Gateway::start().await;
    gateway.hold(true).await;
    let mut client = Bare::start(gateway.port(), http2, size).await;
    let mut taken = vec![look(client.pid(), 0).await];
    for &calls in steps {
        eprintln!("memory in a bare client: {calls} in flight, bodies of {size} B");
        let there = taken.last().map_or(0, |taken| taken.requests);
        client.add(calls - there).await;
        gateway.until(calls as u64, 0).await;
        taken.push(look(client.pid(), calls).await);
    }
    taken
}

/// After a while in which buffers that are not needed any more are let go.
async fn look(pid: u32, requests: usize) -> Taken {
    sleep(Duration::from_secs(2)).await;
    Taken { requests, memory: spending::memory(pid), files: spending::files(pid) }
}
