//! `get`, `result`, `cancel`: one request, by its id.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::api::Api;
use crate::args::{Form, GetArgs, ResultArgs};
use crate::call::Target;
use crate::caller::{Caller, Tries};
use crate::ended::Ended;
use crate::failure::Failure;
use crate::notes::Notes;
use crate::output::Output;
use crate::reply::Reply;
use crate::table::facts;
use crate::time::utc;

/// The longest wait of one call; a longer one is made of several.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The members of a status, in the order in which people want them. Others follow.
const ORDER: [&str; 17] = [
    "id",
    "queue",
    "generation",
    "state",
    "outcome",
    "attempts",
    "lapses",
    "forgiven",
    "submitted_at",
    "not_before",
    "deadline",
    "next_try_at",
    "ended_at",
    "lease",
    "cancel_asked",
    "last_failure",
    "previous",
];

/// Those that are times.
const TIMES: [&str; 7] =
    ["submitted_at", "not_before", "deadline", "next_try_at", "ended_at", "expires_at", "at"];

/// Prints where a request is.
pub(crate) async fn get(args: &GetArgs, output: &mut Output) -> Result<(), Failure> {
    let target = Target::new(&args.api.queue, &args.id, args.generation);
    let reply = Api::open(&args.api)?.send(&target.status()).await?;
    show(&reply, args.output, output)
}

/// Has a request stopped, and prints where it is then.
pub(crate) async fn cancel(args: &GetArgs, output: &mut Output) -> Result<(), Failure> {
    let target = Target::new(&args.api.queue, &args.id, args.generation);
    let reply = Api::open(&args.api)?.send(&target.cancel()).await?;
    show(&reply, args.output, output)
}

/// Prints how a request ended.
pub(crate) async fn result(args: &ResultArgs, output: &mut Output) -> Result<(), Failure> {
    let target = Target::new(&args.api.queue, &args.id, args.generation);
    let caller = Caller::new(Api::open(&args.api)?, Duration::MAX, Notes::plain());
    // A wait that no clock can count has no end.
    let until = Instant::now().checked_add(Duration::from_secs(args.wait));
    let left =
        || until.map_or(LONGEST_WAIT, |until| until.saturating_duration_since(Instant::now()));
    // An API that is away for a moment has ended nothing.
    let (caller, mut tries) = (caller.until(until), Tries::default());
    loop {
        // Whole seconds, rounded up: the last part of one is waited for too.
        let seconds = left().min(LONGEST_WAIT).as_millis().div_ceil(1000);
        let (asked, wait) = (Instant::now(), Duration::from_secs(seconds as u64));
        let came = caller.attempt(&target.result(wait), &mut tries).await?;
        let Some(reply) = came else { continue };
        tries = Tries::default();
        if reply.status != StatusCode::ACCEPTED {
            return print(&args.id, Ended::read(reply)?, args.output, output);
        }
        if left().is_zero() {
            return Err(Failure::NotEnded { state: state(&reply) });
        }
        rest(&reply, asked, wait).await;
    }
}

/// A service that stops answers its waits early, and is not to be asked at once again.
pub(crate) async fn rest(reply: &Reply, asked: Instant, wait: Duration) {
    const SECOND: Duration = Duration::from_secs(1);
    if asked.elapsed() + SECOND < wait {
        sleep(reply.retry_after().unwrap_or(SECOND)).await;
    }
}

/// Prints a result: the body to standard output, what is known of it beside that.
pub(crate) fn print(
    id: &str,
    ended: Ended,
    form: Form,
    output: &mut Output,
) -> Result<(), Failure> {
    match form {
        Form::Json => {
            let line = ended.line(id, None)?;
            let line = serde_json::to_vec(&line)
                .map_err(|_| Failure::Nonsense("a result that can't be written as JSON"))?;
            output.json_line(&line)?;
        }
        Form::Table => output.body(ended.body())?,
    }
    output.finish()?;
    Notes::plain().say(ended.told());
    if ended.is_success() { Ok(()) } else { Err(Failure::Told) }
}

/// Prints a status, or says why there is none.
pub(crate) fn show(reply: &Reply, form: Form, output: &mut Output) -> Result<(), Failure> {
    if !matches!(reply.status, StatusCode::OK | StatusCode::ACCEPTED) {
        return Err(reply.refusal().into());
    }
    let status: Map<String, Value> = serde_json::from_slice(&reply.body)
        .map_err(|_| Failure::Nonsense("a status that is no JSON object"))?;
    match form {
        Form::Json => output.json_line(&reply.body),
        Form::Table => output.text(&facts(pairs(status))),
    }
}

fn state(reply: &Reply) -> String {
    let status: Option<Map<String, Value>> = serde_json::from_slice(&reply.body).ok();
    let state = status.and_then(|status| Some(status.get("state")?.as_str()?.to_owned()));
    state.unwrap_or_else(|| "the API does not say where it is".to_owned())
}

/// The members of a status, one pair each; those of an object inside carry its name.
fn pairs(mut status: Map<String, Value>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let known = ORDER.iter().filter_map(|name| Some(((*name).to_owned(), status.remove(*name)?)));
    let known: Vec<(String, Value)> = known.collect();
    for (name, value) in known.into_iter().chain(status) {
        match value {
            Value::Object(inner) => pairs.extend(
                inner
                    .into_iter()
                    .map(|(part, value)| (format!("{name}.{part}"), text(&part, &value))),
            ),
            value => {
                let text = text(&name, &value);
                pairs.push((name, text));
            }
        }
    }
    pairs
}

/// A member as people read it.
pub(crate) fn text(name: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if TIMES.contains(&name) => match number.as_f64() {
            Some(seconds) => utc((seconds * 1000.0) as u64),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::tests::reply;

    #[test]
    fn a_status_is_shown_in_the_order_of_people_with_what_is_new_behind() {
        let status = br#"{"state":"leased","id":"a","deadline":2000000000,"new":[1],"lease":{"session":"ab","expires_at":1.5}}"#;
        let status: Map<String, Value> = serde_json::from_slice(status).unwrap();
        let expected = [
            ("id", "a"),
            ("state", "leased"),
            ("deadline", "2033-05-18T03:33:20Z"),
            ("lease.expires_at", "1970-01-01T00:00:01Z"),
            ("lease.session", "ab"),
            ("new", "[1]"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs(status), expected);
    }

    #[test]
    fn the_state_of_what_has_not_ended_is_told() {
        assert_eq!(state(&reply(202, &[], br#"{"state":"pending"}"#)), "pending");
        assert!(state(&reply(202, &[], b"?")).contains("does not say"));
    }
}
