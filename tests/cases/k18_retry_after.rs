//! K18: `Retry-After` comes in every shape.
//!
//! Where only one form of it is known, the others are ignored, stop the process, or make a request wait for ever.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fleet::{SOON, Setup};
use crate::pace::{beside_others, full};
use crate::raw_gateway::{Answer, Asked};
use crate::{aftermath, stage};

/// Beside the wait itself: the answer, the settle, the claim. A short run has other tests beside it.
fn slack() -> Duration {
    Duration::from_millis(if full() { 900 } else { 3000 })
}

/// What a shape must lead to, in seconds: no retry before, none after.
type Between = (f64, f64);

/// The usual back-off before the first retry.
const OWN: Between = (0.5, 1.0);

/// A shape: its name, its lines, how long the request has, and what it must lead to.
struct Shape {
    name: &'static str,
    lines: fn() -> Vec<String>,
    timeout: &'static str,
    between: Between,
}

fn shape(name: &'static str, lines: fn() -> Vec<String>, between: Between) -> Shape {
    Shape { name, lines, timeout: "10m", between }
}

fn line(value: &str) -> Vec<String> {
    vec![format!("Retry-After: {value}")]
}

/// Every shape that gateways were seen to send.
fn shapes() -> Vec<Shape> {
    vec![
        shape("seconds", || line("3"), (3.0, 3.75)),
        shape("zero", || line("0"), OWN),
        shape("padded", || vec!["retry-after:   2   ".to_owned()], (2.0, 2.5)),
        // Dates have whole seconds: the moment may be up to one nearer than it was asked to be.
        shape("date", || line(&date_in(4)), (3.0, 5.0)),
        shape("past", || line("Thu, 01 Jan 1970 00:00:00 GMT"), OWN),
        shape("negative", || line("-9"), OWN),
        shape("fraction", || line("9.5"), OWN),
        shape("word", || line("soon"), OWN),
        shape("empty", || line(""), OWN),
        // Clamped to half of the time that is left, so that there is another try.
        Shape { timeout: "8s", ..shape("absurd", || line("99999999999999999999"), (3.0, 5.0)) },
        shape("list", || line("1, 4"), (4.0, 5.0)),
        shape("twice", twice, if full() { (30.0, 37.5) } else { (4.0, 5.0) }),
        shape("other-digits", || line("\u{0669}"), OWN),
    ]
}

/// The header twice: the larger counts.
fn twice() -> Vec<String> {
    let larger = if full() { "30" } else { "4" };
    [line("3"), line(larger)].concat()
}

/// A moment in so many seconds as HTTP writes it.
pub(crate) fn date_in(seconds: u64) -> String {
    #[expect(clippy::disallowed_methods, reason = "a gateway's clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let at = now.as_secs() + seconds;
    let (days, of_day) = (at / 86_400, at % 86_400);
    let (year, month, day) = civil(days);
    let names =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{weekday}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT", names[month - 1])
}

/// The date of a day since 1970, counted forward year by year and month by month.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

/// The first time a refusal with the shape that the body names; then an answer.
fn plan(asked: &Asked<'_>) -> Answer {
    if asked.earlier > 0 {
        return Answer::ok();
    }
    let named = |status: u16, shape: &Shape| asked.has(&format!("<{}-{status}>", shape.name));
    let all = shapes();
    let found = [429, 503]
        .into_iter()
        .find_map(|status| Some((status, all.iter().find(|it| named(status, it))?)));
    let (status, shape) = found.expect("a request of this case");
    let lines = (shape.lines)();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Answer::with(status, &lines, "{\"error\":{\"message\":\"busy\",\"type\":\"overloaded\"}}")
}

/// Each shape, in a 429 and in a 503, all at once.
#[tokio::test(flavor = "multi_thread")]
async fn every_shape_is_honoured_or_ignored_and_none_leads_to_a_loop() {
    let _shared = beside_others().await;
    // So many refusals at once have the queue call less for a moment, and no request wait for the wish of another.
    let (fleet, gateway) = stage::raw(Setup::default(), plan).await;
    let (worker, reclaimer) = (fleet.worker(), fleet.reclaimer());
    fleet.ready(worker.ops).await;
    let mut ids = Vec::new();
    for shape in shapes() {
        for status in [429, 503] {
            let id = format!("{}-{status}", shape.name);
            let (timeout, payload) = (shape.timeout, stage::payload(&id));
            let item =
                format!("{{\"id\":\"{id}\",\"timeout\":\"{timeout}\",\"payload\":{payload}}}");
            assert_eq!(fleet.post(&item).await.status, 202);
            ids.push(id);
        }
    }
    for id in &ids {
        let (outcome, result) = fleet.result_within(id, SOON * 2).await;
        assert_eq!(
            (outcome.as_str(), result.header("holdfast-status")),
            ("answered", Some("200")),
            "{id}"
        );
    }
    for (at, id) in ids.iter().enumerate() {
        let arrivals = gateway.arrivals_of(&stage::mark(id));
        let [first, second] = &*arrivals else { panic!("{id} was tried {} times", arrivals.len()) };
        let gap = second.at.duration_since(first.at);
        let (from, to) = shapes()[at / 2].between;
        let fits =
            gap >= Duration::from_secs_f64(from) && gap <= Duration::from_secs_f64(to) + slack();
        assert!(fits, "{id} was tried again after {gap:?}, not {from} to {to} s");
    }
    aftermath::of(&fleet, &ids, &[&worker, &reclaimer]).await;
}
