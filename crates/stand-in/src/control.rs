//! The stand-in's own routes, under `/stand-in/`: script, hold, arrivals.

use bytes::Bytes;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::arrival::{Arrival, Page};
use crate::openai::Made;
use crate::script::Rule;
use crate::server::Shared;

/// Where they lie.
pub(crate) const PREFIX: &str = "/stand-in/";
/// The longest page of arrivals, if the reader says no other limit.
const PAGE: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hold {
    hold: bool,
}

/// Answers a call to one of them.
pub(crate) fn answer(shared: &Shared, parts: &Parts, body: Bytes) -> Made {
    let path = parts.uri.path().trim_start_matches(PREFIX);
    match (&parts.method, path) {
        (&Method::POST, "script") => match serde_json::from_slice::<Vec<Rule>>(&body) {
            Ok(rules) => script(shared, rules),
            Err(err) => bad(&format!("no list of rules: {err}")),
        },
        (&Method::DELETE, "script") => script(shared, Vec::new()),
        (&Method::POST, "hold") => match serde_json::from_slice::<Hold>(&body) {
            Ok(Hold { hold }) => {
                shared.script.hold(hold);
                Made::json(StatusCode::OK, &json!({ "hold": hold }))
            }
            Err(err) => bad(&format!("no {{\"hold\": true or false}}: {err}")),
        },
        (&Method::GET, "counts") => Made::json(StatusCode::OK, &*shared.journal.counts().borrow()),
        (&Method::GET, "arrivals") => match query(parts.uri.query().unwrap_or_default()) {
            Ok(wanted) => Made::json(StatusCode::OK, &page(shared, &wanted)),
            Err(problem) => bad(&problem),
        },
        (&Method::GET, path) => bytes(shared, path).unwrap_or_else(unknown),
        _ => unknown(),
    }
}

fn script(shared: &Shared, rules: Vec<Rule>) -> Made {
    let count = rules.len();
    match shared.script.replace(rules) {
        Ok(()) => Made::json(StatusCode::OK, &json!({ "rules": count })),
        Err(err) => bad(&err.to_string()),
    }
}

struct Wanted {
    since: u64,
    limit: usize,
    bodies: bool,
}

fn query(text: &str) -> Result<Wanted, String> {
    let mut wanted = Wanted { since: 0, limit: PAGE, bodies: true };
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let read = match pair.split_once('=') {
            Some(("since", value)) => value.parse().map(|since| wanted.since = since).is_ok(),
            Some(("limit", value)) => value.parse().map(|limit| wanted.limit = limit).is_ok(),
            Some(("bodies", value)) => value.parse().map(|bodies| wanted.bodies = bodies).is_ok(),
            _ => false,
        };
        if !read {
            return Err(format!("not since, limit (numbers) or bodies (true or false): {pair}"));
        }
    }
    Ok(wanted)
}

fn page(shared: &Shared, wanted: &Wanted) -> Page {
    let arrivals = shared.journal.after(wanted.since, wanted.limit);
    let next = arrivals.last().map_or(wanted.since, |arrival| arrival.number);
    let arrivals = arrivals.iter().map(|arrival| arrival.line(wanted.bodies)).collect();
    Page { arrivals, next, counts: *shared.journal.counts().borrow() }
}

/// `arrivals/{n}/body` and `arrivals/{n}/answer`.
fn bytes(shared: &Shared, path: &str) -> Option<Made> {
    let (number, what) = path.strip_prefix("arrivals/")?.split_once('/')?;
    let Arrival { body, end, .. } = shared.journal.get(number.parse().ok()?)?;
    let bytes = match what {
        "body" => body,
        "answer" => end?.answer,
        _ => return None,
    };
    Some(Made { content_type: "application/octet-stream", ..Made::bytes(StatusCode::OK, bytes) })
}

fn bad(message: &str) -> Made {
    Made::error(StatusCode::BAD_REQUEST, message, Some("unusable"))
}

fn unknown() -> Made {
    Made::error(StatusCode::NOT_FOUND, "no such call, or nothing is kept under this number", None)
}
