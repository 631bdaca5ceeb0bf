//! Every metric, once: its name, its labels, its buckets, and one function a call site.
//!
//! Base units. Labels come from closed sets: queue names of the settings, and words that the code
//! spells. An id, a tenant or a URL never becomes a label. What was decided is counted after the
//! script has answered.

mod outcomes;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{SetRecorderError, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusRecorder};

pub use metrics_exporter_prometheus::PrometheusHandle;
pub use outcomes::{ClaimOutcome, SettleOutcome, SpanOutcome};

use crate::model::Outcome;

const SUBMITS: &str = "holdfast_submits_total";
const CLAIMS: &str = "holdfast_claims_total";
const WAIT: &str = "holdfast_wait_seconds";
const DISPATCH: &str = "holdfast_dispatch_seconds";
const SETTLES: &str = "holdfast_settles_total";
const ENDS: &str = "holdfast_ends_total";
const RETRIES: &str = "holdfast_retries_total";
const LEASES_HELD: &str = "holdfast_leases_held";
const IN_FLIGHT: &str = "holdfast_in_flight";
const RENEW_LAG: &str = "holdfast_renew_lag_seconds";
const LAPSES: &str = "holdfast_lapses_total";
const FORGIVEN: &str = "holdfast_forgiven_total";
const REDELIVERIES: &str = "holdfast_redeliveries_total";
const CLOCK_SKIPS: &str = "holdfast_clock_skips_total";
const QUEUE_REQUESTS: &str = "holdfast_queue_requests";
const HEAD_AGE: &str = "holdfast_head_age_seconds";
const HEAD_SLACK: &str = "holdfast_head_slack_seconds";
const OLDEST_LEASE: &str = "holdfast_oldest_lease_seconds";
const QUEUE_PAUSED: &str = "holdfast_queue_paused";
const SCRIPT: &str = "holdfast_script_seconds";
const REDIS_UP: &str = "holdfast_redis_up";
const REDIS_RECONNECTS: &str = "holdfast_redis_reconnects_total";
const CLOCK_SKEW: &str = "holdfast_clock_skew_seconds";
const REDIS_FAULT: &str = "holdfast_redis_fault";
const LOOP_LAST_SUCCESS: &str = "holdfast_loop_last_success_seconds";
const BREAKER_STATE: &str = "holdfast_breaker_state";
const GATE_ALLOWED: &str = "holdfast_gate_allowed";
const GATE_CUTS: &str = "holdfast_gate_cuts_total";
const GATE_STALE_FILES: &str = "holdfast_gate_stale_files";
const HTTP_REQUESTS: &str = "holdfast_http_requests_total";
const HTTP: &str = "holdfast_http_seconds";
const FILE_STALE: &str = "holdfast_file_stale";
const TRACE_SPANS: &str = "holdfast_trace_spans_total";
const BUILD_INFO: &str = "holdfast_build_info";

/// What kind of series a metric is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows; ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by these upper bounds.
    Histogram(&'static [f64]),
}

/// The part of the system a metric comes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The way of a request, and its recovery.
    Main,
    /// Operators' calls.
    Operators,
    /// Gates and breakers.
    Gates,
}

/// A metric as it is documented in `docs/metrics.md`.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its full name.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Its labels, in the order of the docs.
    pub labels: &'static [&'static str],
    /// What it comes with.
    pub part: Part,
    /// The text of its `# HELP` line.
    pub help: &'static str,
}

const WAITS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
    3_600.0, 14_400.0,
];
const CALLS: &[f64] = &[
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
    900.0,
];
const SCRIPTS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Every metric of this version.
pub const ALL: &[Metric] = &[
    of_counter(SUBMITS, &["queue", "outcome"], "Submits, by what became of them."),
    of_counter(CLAIMS, &["queue", "outcome"], "Claim calls, by how much of what was asked came."),
    of_histogram(WAIT, WAITS, &["queue"], "From runnable to claimed."),
    of_histogram(
        DISPATCH,
        CALLS,
        &["queue", "outcome"],
        "One attempt, by status class or transport fault.",
    ),
    of_counter(SETTLES, &["queue", "outcome"], "Settled attempts, by the answer of the script."),
    of_counter(ENDS, &["queue", "outcome"], "Requests that reached their end."),
    of_counter(RETRIES, &["queue", "reason"], "Attempts that will be repeated, by why."),
    of_gauge(LEASES_HELD, &["queue"], "Leases that this worker holds."),
    of_gauge(IN_FLIGHT, &["queue"], "Calls to the target that are under way."),
    of_histogram(RENEW_LAG, SCRIPTS, &[], "How late renewals were."),
    of_counter(LAPSES, &["queue"], "Leases that ran out and were charged to their request."),
    of_counter(
        FORGIVEN,
        &["queue"],
        "Leases that ran out because of an outage, charged to nobody.",
    ),
    of_counter(REDELIVERIES, &["queue"], "Requests given back to their queue after a lapse."),
    of_counter(CLOCK_SKIPS, &["loop"], "Rests after a jump of the clock of Redis."),
    of_gauge(QUEUE_REQUESTS, &["queue", "state"], "Requests by home; aggregate with max."),
    of_gauge(HEAD_AGE, &["queue"], "Age of the next request to be claimed; aggregate with max."),
    of_gauge(HEAD_SLACK, &["queue"], "Time to the deadline of the next request to be claimed."),
    of_gauge(OLDEST_LEASE, &["queue"], "Age of the oldest running lease."),
    of_gauge(QUEUE_PAUSED, &["queue"], "1 while the queue is paused."),
    of_histogram(SCRIPT, SCRIPTS, &["script"], "A script's call, from sent to answered."),
    of_gauge(REDIS_UP, &[], "1 while Redis answers this process."),
    of_counter(REDIS_RECONNECTS, &[], "Connections to Redis that were made anew."),
    of_gauge(CLOCK_SKEW, &[], "The clock of Redis minus this host's."),
    of_gauge(REDIS_FAULT, &["reason"], "1 while Redis is set up in a way that risks requests."),
    of_gauge(LOOP_LAST_SUCCESS, &["loop"], "Unix time of a loop's last good round."),
    of_counter(HTTP_REQUESTS, &["route", "code"], "Answered calls of the API."),
    of_histogram(HTTP, CALLS, &["route", "code"], "A call of the API, from head read to answered."),
    of_gauge(FILE_STALE, &["file"], "1 while a file that was changed can't be used."),
    of_gates(of_gauge(
        BREAKER_STATE,
        &["queue"],
        "Whether the target is held back: 0 closed, 1 limited, 2 open.",
    )),
    of_gates(of_gauge(GATE_ALLOWED, &["queue"], "Calls at once that the breaker allows.")),
    of_gates(of_counter(GATE_CUTS, &["queue", "reason"], "How often the breaker allowed less.")),
    of_gates(of_gauge(
        GATE_STALE_FILES,
        &["queue"],
        "1 while changed credentials or certificates can't be used.",
    )),
    of_counter(TRACE_SPANS, &["outcome"], "Spans of traces, by what became of them."),
    of_gauge(BUILD_INFO, &["version", "schema"], "1; what runs here."),
];

const fn of_gates(metric: Metric) -> Metric {
    Metric { part: Part::Gates, ..metric }
}

const fn of_counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Counter, labels, part: Part::Main, help }
}

const fn of_gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, part: Part::Main, help }
}

const fn of_histogram(
    name: &'static str,
    buckets: &'static [f64],
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Histogram(buckets), labels, part: Part::Main, help }
}

/// Metrics can't be exported.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The buckets of a histogram are unusable.
    #[error("unusable buckets")]
    Buckets(#[from] BuildError),
    /// Somebody else exports the metrics of this process.
    #[error("another recorder is installed")]
    Taken(#[from] SetRecorderError<PrometheusRecorder>),
}

/// The recorder is the process's, and so is its handle.
static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Installs the recorder of this process, once: later calls hand out the same handle.
pub fn install() -> Result<PrometheusHandle, InstallError> {
    // A handle is either there or not, also after a panic.
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let recorder = recorder()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)?;
    describe();
    *installed = Some(handle.clone());
    Ok(handle)
}

/// A recorder that renders every histogram as one: without buckets it would be a summary.
pub(crate) fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in ALL {
        if let Kind::Histogram(buckets) = metric.kind {
            builder =
                builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
        }
    }
    Ok(builder.build_recorder())
}

/// Gives every metric its help text.
fn describe() {
    for Metric { name, kind, help, .. } in ALL {
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, *help),
            Kind::Gauge => metrics::describe_gauge!(*name, *help),
            Kind::Histogram(_) => metrics::describe_histogram!(*name, *help),
        }
    }
}

/// A submit to a declared queue was answered: `accepted`, `replayed`, or with the problem of this name.
pub fn submitted(queue: &str, outcome: &'static str) {
    counter!(SUBMITS, "queue" => queue.to_owned(), "outcome" => outcome).increment(1);
}

/// A claim was answered.
pub fn claimed(queue: &str, outcome: ClaimOutcome) {
    counter!(CLAIMS, "queue" => queue.to_owned(), "outcome" => outcome.word()).increment(1);
}

/// A claimed request had been runnable for this long.
pub fn waited(queue: &str, wait: Duration) {
    histogram!(WAIT, "queue" => queue.to_owned()).record(wait);
}

/// An attempt is over. `outcome` is a status class or the name of a transport fault.
pub fn dispatched(queue: &str, outcome: &'static str, elapsed: Duration) {
    histogram!(DISPATCH, "queue" => queue.to_owned(), "outcome" => outcome).record(elapsed);
}

/// The label of an HTTP status: five words, whatever a target may answer.
pub fn status_class(status: u16) -> &'static str {
    match status {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        500..=599 => "5xx",
        _ => "other",
    }
}

/// An attempt was settled; counted after the script has answered.
pub fn settled(queue: &str, outcome: SettleOutcome) {
    counter!(SETTLES, "queue" => queue.to_owned(), "outcome" => outcome.word()).increment(1);
}

/// A request reached its end, by a script of the caller's. `outcome` is one of the protocol's.
pub fn ended(queue: &str, outcome: &'static str) {
    counter!(ENDS, "queue" => queue.to_owned(), "outcome" => outcome).increment(1);
}

/// An attempt will be repeated. `reason` is a status class or the name of a transport fault.
pub fn retried(queue: &str, reason: &'static str) {
    counter!(RETRIES, "queue" => queue.to_owned(), "reason" => reason).increment(1);
}

/// This worker holds so many leases of the queue.
pub fn leases_held(queue: &str, held: usize) {
    gauge!(LEASES_HELD, "queue" => queue.to_owned()).set(held as f64);
}

/// So many calls to the queue's target are under way.
pub fn in_flight(queue: &str, calls: usize) {
    gauge!(IN_FLIGHT, "queue" => queue.to_owned()).set(calls as f64);
}

/// What the breaker of a queue does: 0 closed, 1 limited, 2 open; and the calls at once it allows.
pub fn gate(queue: &str, state: u8, allowed: usize) {
    gauge!(BREAKER_STATE, "queue" => queue.to_owned()).set(f64::from(state));
    gauge!(GATE_ALLOWED, "queue" => queue.to_owned()).set(allowed as f64);
}

/// A breaker allows less from now on. `reason` is 429, 503, or the name of a transport fault.
pub fn gate_cut(queue: &str, reason: &'static str) {
    counter!(GATE_CUTS, "queue" => queue.to_owned(), "reason" => reason).increment(1);
}

/// Whether the files of the queue's target changed into something that can't be used.
pub fn gate_stale_files(queue: &str, stale: bool) {
    gauge!(GATE_STALE_FILES, "queue" => queue.to_owned()).set(f64::from(stale));
}

/// A renewal went out this much later than planned.
pub fn renew_lag(lag: Duration) {
    histogram!(RENEW_LAG).record(lag);
}

/// Leases ran out, and their requests were charged a lapse.
pub fn lapsed(queue: &str, leases: u64) {
    counter!(LAPSES, "queue" => queue.to_owned()).increment(leases);
}

/// Leases ran out because of an outage.
pub fn forgiven(queue: &str, leases: u64) {
    counter!(FORGIVEN, "queue" => queue.to_owned()).increment(leases);
}

/// Requests went back to their queue after a lapse.
pub fn redelivered(queue: &str, requests: u64) {
    counter!(REDELIVERIES, "queue" => queue.to_owned()).increment(requests);
}

/// What a queue's reclaimer counts starts at 0: of a first count that comes with its series,
/// `rate` and `increase` see nothing, and a worker that is killed once would raise no alert.
pub fn queue_watched(queue: &str) {
    lapsed(queue, 0);
    forgiven(queue, 0);
    redelivered(queue, 0);
    counter!(ENDS, "queue" => queue.to_owned(), "outcome" => Outcome::DeadlineExceeded.word())
        .increment(0);
}

/// The same for a loop that may have to rest.
pub fn clock_watched(loop_name: &'static str) {
    counter!(CLOCK_SKIPS, "loop" => loop_name).increment(0);
}

/// A loop rests, because the clock of Redis jumped.
pub fn clock_skipped(loop_name: &'static str) {
    counter!(CLOCK_SKIPS, "loop" => loop_name).increment(1);
}

/// So many requests of the queue are in this home.
pub fn queue_requests(queue: &str, state: &'static str, requests: u64) {
    gauge!(QUEUE_REQUESTS, "queue" => queue.to_owned(), "state" => state).set(requests as f64);
}

/// The next request to be claimed is so old; 0 where none waits.
pub fn head_age(queue: &str, seconds: f64) {
    gauge!(HEAD_AGE, "queue" => queue.to_owned()).set(seconds);
}

/// The next request to be claimed has so much time left.
pub fn head_slack(queue: &str, seconds: f64) {
    gauge!(HEAD_SLACK, "queue" => queue.to_owned()).set(seconds);
}

/// The oldest running lease is so old; 0 where none runs.
pub fn oldest_lease(queue: &str, seconds: f64) {
    gauge!(OLDEST_LEASE, "queue" => queue.to_owned()).set(seconds);
}

/// Whether claims of the queue are stopped.
pub fn queue_paused(queue: &str, paused: bool) {
    gauge!(QUEUE_PAUSED, "queue" => queue.to_owned()).set(f64::from(paused));
}

/// A script was called, whatever came of it.
pub fn script_ran(script: &'static str, elapsed: Duration) {
    histogram!(SCRIPT, "script" => script).record(elapsed);
}

/// Whether Redis answers.
pub fn redis_up(up: bool) {
    gauge!(REDIS_UP).set(f64::from(up));
}

/// A connection to Redis was made anew.
pub fn redis_reconnected() {
    counter!(REDIS_RECONNECTS).increment(1);
}

/// The clock of Redis is so far ahead of this host's.
pub fn clock_skew(seconds: f64) {
    gauge!(CLOCK_SKEW).set(seconds);
}

/// Whether Redis has a fault of this name.
pub fn redis_fault(reason: &'static str, there: bool) {
    gauge!(REDIS_FAULT, "reason" => reason).set(f64::from(there));
}

/// A loop had a good round at this Unix time.
pub fn loop_succeeded(loop_name: &'static str, unix_seconds: f64) {
    gauge!(LOOP_LAST_SUCCESS, "loop" => loop_name).set(unix_seconds);
}

/// A call of the API was answered. `route` is the route's pattern, never the path that was asked.
pub fn http_request(route: &str, code: u16, elapsed: Duration) {
    let labels = [("route", route.to_owned()), ("code", code.to_string())];
    counter!(HTTP_REQUESTS, &labels).increment(1);
    histogram!(HTTP, &labels).record(elapsed);
}

/// Whether a file was changed into something that can't be used. `file` is the setting that names it.
pub fn file_stale(file: &'static str, stale: bool) {
    gauge!(FILE_STALE, "file" => file).set(f64::from(stale));
}

/// So many spans have come to their end, or to nothing.
pub fn spans(outcome: SpanOutcome, spans: usize) {
    counter!(TRACE_SPANS, "outcome" => outcome.word()).increment(spans as u64);
}

/// What is counted of spans starts at 0 where traces are on, and is not there where they are off.
pub fn traces_opened() {
    use SpanOutcome::{Dropped, Exported, Lost, Refused};
    for outcome in [Exported, Dropped, Refused, Lost] {
        spans(outcome, 0);
    }
}

/// What runs here.
pub fn build_info(version: &'static str, schema: u32) {
    // A counter that never moved is exported too.
    counter!(REDIS_RECONNECTS).increment(0);
    gauge!(BUILD_INFO, "version" => version, "schema" => schema.to_string()).set(1.0);
}

#[cfg(test)]
mod tests;
