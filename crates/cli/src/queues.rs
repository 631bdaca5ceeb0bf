//! `queue ls`: the registered queues, and what they hold over all shards.

use std::num::NonZeroU32;

use holdfast_core::keys::ShardKeys;
use holdfast_core::model::QueueName;
use holdfast_core::script::{Depth, DepthReply};
use serde::Serialize;
use serde_json::Number;

use crate::args::{Form, StoreArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::Store;
use crate::table::table;
use crate::time::{seconds, span};

const HEADING: [&str; 13] = [
    "QUEUE",
    "SHARDS",
    "PENDING",
    "SUSPECTS",
    "DELAYED",
    "LEASED",
    "FINISHED",
    "DEAD",
    "BYTES",
    "PAUSED",
    "LIMIT",
    "HEAD-AGE",
    "HEAD-SLACK",
];

/// A queue over all its shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    name: String,
    shards: NonZeroU32,
    requests: Requests,
    bytes: u64,
    paused: bool,
    /// An operator's limit of what is in flight.
    limit: Option<u64>,
    head_age_seconds: Option<Number>,
    head_slack_seconds: Option<Number>,
    #[serde(skip)]
    head: [String; 2],
}

/// How many are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Requests {
    pending: u64,
    suspects: u64,
    delayed: u64,
    leased: u64,
    finished: u64,
    dead: u64,
}

/// Lists the queues.
pub(crate) async fn list(args: &StoreArgs, output: &mut Output) -> Result<(), Failure> {
    let store = Store::open(&args.redis)?;
    let mut rows = Vec::new();
    for (name, shards) in store.queues(args).await? {
        let mut depths = Vec::new();
        for shard in &ShardKeys::all(&name, shards.get()) {
            depths.push(store.told(Depth { shard }.run(&store.redis).await)?);
        }
        rows.push(Row::of(&name, shards, &depths));
    }
    match args.output {
        Form::Json => output.json(&rows),
        Form::Table => output.text(&table(&HEADING, rows.iter().map(Row::cells).collect())),
    }
}

impl Row {
    fn of(name: &QueueName, shards: NonZeroU32, depths: &[DepthReply]) -> Self {
        let sum = |count: fn(&DepthReply) -> u64| depths.iter().map(count).sum::<u64>();
        // The oldest of the heads, and the one whose deadline is next.
        let oldest = depths.iter().filter_map(|it| Some((it.head_submitted?, it.now)));
        let oldest = oldest.max_by_key(|(submitted, now)| now.saturating_sub(*submitted));
        let next = depths.iter().filter_map(|it| Some((it.now, it.head_deadline?)));
        let next = next.min_by_key(|(now, deadline)| deadline.saturating_sub(*now));
        let between = |moments: Option<(u64, u64)>| {
            moments.and_then(|(from, to)| seconds(to.saturating_sub(from)))
        };
        let shown = |moments: Option<(u64, u64)>| {
            moments.map_or_else(String::new, |(from, to)| span(from, to))
        };
        Self {
            name: name.to_string(),
            shards,
            requests: Requests {
                pending: sum(|it| it.pending),
                suspects: sum(|it| it.suspects),
                delayed: sum(|it| it.delayed),
                leased: sum(|it| it.leased),
                finished: sum(|it| it.finished),
                dead: sum(|it| it.dead),
            },
            bytes: sum(|it| it.bytes),
            paused: depths.iter().any(|it| it.paused),
            limit: depths.iter().find_map(|it| it.limit),
            head_age_seconds: between(oldest),
            head_slack_seconds: between(next),
            head: [shown(oldest), shown(next)],
        }
    }

    fn cells(&self) -> Vec<String> {
        let Requests { pending, suspects, delayed, leased, finished, dead } = self.requests;
        let counts = [pending, suspects, delayed, leased, finished, dead, self.bytes];
        let mut cells = vec![self.name.clone(), self.shards.to_string()];
        cells.extend(counts.map(|count| count.to_string()));
        cells.push(if self.paused { "yes" } else { "no" }.to_owned());
        cells.push(self.limit.map_or_else(String::new, |limit| limit.to_string()));
        cells.extend(self.head.clone());
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_the_sum_of_its_shards_with_the_head_that_matters() {
        let one = DepthReply {
            pending: 2,
            bytes: 100,
            now: 10_000,
            head_submitted: Some(8_000),
            head_deadline: Some(70_000),
            ..DepthReply::default()
        };
        let other = DepthReply {
            pending: 3,
            dead: 1,
            paused: true,
            limit: Some(8),
            now: 10_500,
            head_submitted: Some(1_000),
            head_deadline: Some(90_000),
            ..DepthReply::default()
        };
        let name = QueueName::try_from("q").unwrap();
        let row = Row::of(&name, NonZeroU32::new(2).unwrap(), &[one, other]);
        let expected = ["q", "2", "5", "0", "0", "0", "0", "1", "100", "yes", "8", "9.5s", "1m00s"];
        assert_eq!(row.cells(), expected);
        assert_eq!(row.head_slack_seconds, Some(60.into()));
        let empty = Row::of(&name, NonZeroU32::MIN, &[DepthReply::default()]);
        assert_eq!(empty.cells()[9..], ["no", "", "", ""]);
    }
}
