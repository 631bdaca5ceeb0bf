//! `queue`: what the queues hold; pause, resume and limit of one.

use holdfast_core::operate::{Counts, Overruled, QueueRow, span};
use holdfast_core::script::Override;

use crate::args::{Form, LimitArgs, ListArgs, OverruleArgs};
use crate::failure::Failure;
use crate::ops::Ops;
use crate::output::Output;
use crate::table::{facts, table};

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

/// Lists the queues.
pub(crate) async fn list(args: &ListArgs, output: &mut Output) -> Result<(), Failure> {
    let rows = Ops::open(&args.ops)?.queue_rows(args.queue.as_ref()).await?;
    match args.ops.output {
        Form::Json => output.json(&rows),
        Form::Table => output.text(&table(&HEADING, rows.iter().map(cells).collect())),
    }
}

/// Stops the claims of a queue, or lets them go on.
pub(crate) async fn pause(
    args: &OverruleArgs,
    paused: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    overrule(args, Override::Paused(paused), output).await
}

/// Limits how many of a queue are in flight.
pub(crate) async fn limit(args: &LimitArgs, output: &mut Output) -> Result<(), Failure> {
    overrule(&args.overrule, Override::Limit(args.in_flight), output).await
}

async fn overrule(args: &OverruleArgs, word: Override, output: &mut Output) -> Result<(), Failure> {
    let ops = Ops::open(&args.ops)?;
    let done = ops.overrule(&args.queue, word, (args.version, args.dry_run)).await?;
    match args.ops.output {
        Form::Json => output.json(&done),
        Form::Table => output.text(&facts(pairs(&done))),
    }
}

fn pairs(done: &Overruled) -> Vec<(String, String)> {
    let paused = |it: &Overruled, after: bool| {
        let said = if after { it.after.paused } else { it.before.paused };
        format!("{} (version {})", if said.value { "yes" } else { "no" }, said.version)
    };
    let limit = |it: &Overruled, after: bool| {
        let said = if after { it.after.limit } else { it.before.limit };
        let value =
            said.value.map_or_else(|| "as the settings say".to_owned(), |it| it.to_string());
        format!("{value} (version {})", said.version)
    };
    let changes = |before: String, after: String| {
        if before == after { after } else { format!("{before} -> {after}") }
    };
    let pairs = [
        ("queue", done.queue.clone()),
        ("action", done.action.clone()),
        ("outcome", done.outcome.clone()),
        ("paused", changes(paused(done, false), paused(done, true))),
        ("limit", changes(limit(done, false), limit(done, true))),
        ("shards changed", done.shards_changed.to_string()),
        ("pending", done.pending.to_string()),
        ("leased", done.leased.to_string()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn cells(row: &QueueRow) -> Vec<String> {
    let Counts { pending, suspects, delayed, leased, finished, dead } = row.requests;
    let counts = [pending, suspects, delayed, leased, finished, dead, row.bytes];
    let mut cells = vec![row.name.clone(), row.shards.to_string()];
    cells.extend(counts.map(|count| count.to_string()));
    cells.push(if row.paused { "yes" } else { "no" }.to_owned());
    cells.push(row.limit.map_or_else(String::new, |limit| limit.to_string()));
    let head = [row.head_age_seconds, row.head_slack_seconds];
    cells.extend(head.map(|it| it.map_or_else(String::new, |it| span(0, it.0))));
    cells
}

#[cfg(test)]
mod tests {
    use holdfast_core::operate::{Overrides, Said, Seconds};

    use super::*;

    fn row() -> QueueRow {
        let requests = Counts { pending: 5, dead: 1, ..Counts::default() };
        QueueRow {
            name: "q".to_owned(),
            shards: 2,
            requests,
            bytes: 100,
            paused: true,
            limit: Some(8),
            overrides: Overrides::default(),
            head_age_seconds: Some(Seconds(9_500)),
            head_slack_seconds: Some(Seconds(60_000)),
        }
    }

    #[test]
    fn a_queue_is_a_row_with_what_is_not_there_left_empty() {
        let expected = ["q", "2", "5", "0", "0", "0", "0", "1", "100", "yes", "8", "9.5s", "1m00s"];
        assert_eq!(cells(&row()), expected);
        let idle =
            QueueRow { limit: None, head_age_seconds: None, head_slack_seconds: None, ..row() };
        assert_eq!(cells(&QueueRow { paused: false, ..idle })[9..], ["no", "", "", ""]);
    }

    #[test]
    fn what_changes_is_shown_as_it_was_and_as_it_is() {
        let before = Overrides::default();
        let after = Overrides { paused: Said { value: true, version: 1 }, ..before };
        let done = Overruled {
            queue: "q".to_owned(),
            action: "pause".to_owned(),
            outcome: "set".to_owned(),
            before,
            after,
            shards_changed: 1,
            pending: 7,
            leased: 2,
        };
        let pairs = pairs(&done);
        assert_eq!(pairs[3].1, "no (version 0) -> yes (version 1)");
        assert_eq!(pairs[4].1, "as the settings say (version 0)");
    }
}
