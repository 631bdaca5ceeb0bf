//! `dead`: the dead letters, what ended them, and running them again.

use holdfast_core::counted;
use holdfast_core::operate::{
    DeadFilter, DeadLetter, DeadRow, LastFailure, RedriveAsk, Redriven, Rows, span, utc,
};

use crate::args::{DeadFilterArgs, DeadLsArgs, Form, OneArgs, RedriveArgs};
use crate::failure::Failure;
use crate::leases::count;
use crate::listing::tell_rest;
use crate::notes::Notes;
use crate::ops::Ops;
use crate::output::Output;
use crate::single::identity;
use crate::table::{facts, table};

const HEADING: [&str; 11] = [
    "QUEUE",
    "ID",
    "TENANT",
    "OUTCOME",
    "LAST-FAILURE",
    "ATTEMPTS",
    "LAPSES",
    "ENDED",
    "KEPT-UNTIL",
    "KEY",
    "HANDLE",
];

/// Lists the dead letters of all shards, each shard's in the order in which they are swept.
pub(crate) async fn list(args: &DeadLsArgs, output: &mut Output) -> Result<(), Failure> {
    let list = &args.rows.list;
    let ops = Ops::open(&list.ops)?;
    let filter = filter(&args.filter, args.tenant.as_ref().map(ToString::to_string));
    let limit = args.rows.limit;
    let mut all = Rows { rows: Vec::new(), unreadable: 0, more: false };
    for queue in ops.queues(list.queue.as_ref()).await? {
        let mut cursor = None;
        loop {
            let room = limit.saturating_sub(all.rows.len());
            if room == 0 {
                all.more = true;
                break;
            }
            let page = ops.dead_rows(&queue, &filter, cursor.as_deref(), room).await?;
            all.unreadable += page.unreadable;
            all.rows.extend(page.rows);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    tell_rest(&all, limit, usize::MAX);
    match list.ops.output {
        Form::Json => output.json(&all.rows),
        Form::Table => output.text(&table(&HEADING, all.rows.iter().map(cells).collect())),
    }
}

/// Shows one.
pub(crate) async fn show(one: &OneArgs, output: &mut Output) -> Result<(), Failure> {
    let letter = Ops::open(&one.ops)?.dead_letter(&one.queue, &identity(one)?).await?;
    match one.ops.output {
        Form::Json => output.json(&letter),
        Form::Table => output.text(&facts(pairs(&letter))),
    }
}

/// Counts dead letters, and runs them again if that is confirmed.
pub(crate) async fn redrive(args: &RedriveArgs, output: &mut Output) -> Result<(), Failure> {
    let ops = Ops::open(&args.ops)?;
    let own = (!args.ids.is_empty()).then(|| "default".to_owned());
    let tenant = args.tenant.as_ref().map(ToString::to_string).or(own);
    let ask = RedriveAsk {
        filter: filter(&args.filter, tenant),
        ids: args.ids.clone(),
        all: args.all,
        dry_run: true,
        rate: Some(args.rate),
        cursor: args.cursor.clone(),
        ..RedriveAsk::default()
    };
    let found = ops.redrive(&args.queue, &ask).await?;
    if !args.yes {
        show_redriven(&found, args.ops.output, output)?;
        output.finish()?;
        if let Some(failure) = nothing_done(&ask, &found, args) {
            return Err(failure);
        }
        if args.dry_run {
            return Ok(());
        }
        let these = match found.matched {
            1 => "this one".to_owned(),
            many => format!("these {many}"),
        };
        let told = format!("nothing was changed: --yes runs {these} again");
        return Err(Failure::Unconfirmed(told));
    }
    let notes = Notes::plain();
    let matched = counted(found.matched, "dead letter matches", "dead letters match");
    notes.say(format!("holdfastctl: {matched}"));
    let (count, as_of) = (Some(found.matched), Some(found.as_of));
    let mut ask = RedriveAsk { dry_run: false, count, as_of, ..ask };
    let mut all = Redriven { queue: found.queue, as_of: found.as_of, ..Redriven::default() };
    loop {
        let some = ops.redrive(&args.queue, &ask).await.inspect_err(|_| {
            if let Some(cursor) = &ask.cursor {
                notes.say(format!("holdfastctl: --cursor {cursor} goes on behind what is done"));
            }
        })?;
        add(&mut all, &some);
        ask.count = Some(found.matched.saturating_sub(all.redriven));
        ask.cursor.clone_from(&some.cursor);
        if some.outcome != "more" {
            break;
        }
        let done = format!("run again so far: {} of {}", all.redriven, found.matched);
        notes.say(format!("holdfastctl: {done}"));
    }
    show_redriven(&all, args.ops.output, output)?;
    match all.outcome.as_str() {
        "done" => nothing_done(&ask, &all, args).map_or(Ok(()), Err),
        _ => Err(Failure::Stopped {
            reason: all.reason.unwrap_or_default(),
            cursor: all.cursor.unwrap_or_default(),
        }),
    }
}

/// Of what was named by its id, nothing could be done, as with every other command on one request.
fn nothing_done(ask: &RedriveAsk, done: &Redriven, args: &RedriveArgs) -> Option<Failure> {
    let missed = done.not_dead + done.gone + done.bodyless + done.late;
    let is_done = if ask.dry_run { done.matched > 0 } else { done.redriven > 0 };
    if ask.ids.is_empty() || is_done {
        return None;
    }
    if missed == 0 {
        // Where it went on from a cursor, what was named may have been run again before.
        let told = "none of what was named is among what the other filters take";
        return args.cursor.is_none().then(|| Failure::Unknown(told.to_owned()));
    }
    if missed > done.not_dead {
        let told = "nothing of what was named could be run again, as was told";
        return Some(Failure::Unknown(told.to_owned()));
    }
    let tenant = ask.filter.tenant.as_deref().unwrap_or_default();
    let hint = match args.tenant {
        Some(_) => "",
        None => "; --tenant names another tenant",
    };
    let what = if ask.ids.len() == 1 { "it is no dead letter" } else { "none is a dead letter" };
    let told = format!("{what} of tenant {tenant} in queue {}{hint}", args.queue);
    Some(Failure::Unknown(told))
}

fn add(all: &mut Redriven, some: &Redriven) {
    all.outcome.clone_from(&some.outcome);
    all.reason.clone_from(&some.reason);
    all.cursor.clone_from(&some.cursor);
    all.matched += some.matched;
    all.redriven += some.redriven;
    all.gone += some.gone;
    all.bodyless += some.bodyless;
    all.late += some.late;
    all.not_dead += some.not_dead;
    for (outcome, number) in &some.by_outcome {
        *all.by_outcome.entry(outcome.clone()).or_default() += number;
    }
}

fn show_redriven(done: &Redriven, form: Form, output: &mut Output) -> Result<(), Failure> {
    if form == Form::Json {
        return output.json(done);
    }
    let mut pairs = vec![
        ("queue", done.queue.clone()),
        ("outcome", done.outcome.clone()),
        ("matched", done.matched.to_string()),
    ];
    let by = done.by_outcome.iter().map(|(outcome, number)| format!("{number} {outcome}"));
    let by: Vec<String> = by.collect();
    pairs.push(("by outcome", by.join(", ")));
    if done.outcome != "counted" {
        pairs.push(("redriven", done.redriven.to_string()));
    }
    for (name, number) in [
        ("moved meanwhile", done.gone),
        ("body lost", done.bodyless),
        ("no time left", done.late),
        ("no dead letter", done.not_dead),
    ] {
        if number > 0 {
            pairs.push((name, number.to_string()));
        }
    }
    output.text(&facts(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

fn filter(args: &DeadFilterArgs, tenant: Option<String>) -> DeadFilter {
    let seconds = |it: Option<std::time::Duration>| it.map(|it| it.as_secs());
    DeadFilter {
        tenant,
        outcome: args.outcome.clone(),
        failure: args.failure.clone(),
        older_seconds: seconds(args.older),
        younger_seconds: seconds(args.younger),
    }
}

fn cells(row: &DeadRow) -> Vec<String> {
    vec![
        row.queue.clone(),
        row.id.clone().unwrap_or_default(),
        row.tenant.clone().unwrap_or_default(),
        row.outcome.clone().unwrap_or_default(),
        row.last_failure.as_ref().map_or_else(String::new, LastFailure::words),
        count(row.attempts),
        count(row.lapses),
        row.ended_at.map_or_else(String::new, |at| utc(at.0)),
        utc(row.kept_until.0),
        row.key.clone(),
        row.handle.clone(),
    ]
}

fn pairs(letter: &DeadLetter) -> Vec<(String, String)> {
    let row = &letter.row;
    let body = if letter.has_body { "kept" } else { "MISSING: it cannot run again" };
    let pairs = [
        ("queue", Some(row.queue.clone())),
        ("id", row.id.clone()),
        ("tenant", row.tenant.clone()),
        ("outcome", row.outcome.clone()),
        ("last failure", row.last_failure.as_ref().map(LastFailure::words)),
        ("gateway status", letter.gateway_status.map(|it| it.to_string())),
        ("attempts", row.attempts.map(|it| it.to_string())),
        ("lapses", row.lapses.map(|it| it.to_string())),
        ("forgiven", row.forgiven.map(|it| it.to_string())),
        ("submitted", Some(utc(letter.submitted_at.0))),
        ("deadline", Some(utc(letter.deadline.0))),
        ("time given", Some(span(letter.submitted_at.0, letter.deadline.0))),
        ("ended", row.ended_at.map(|at| utc(at.0))),
        ("kept until", Some(utc(row.kept_until.0))),
        ("body", Some(format!("{}, {body}", counted(letter.body_bytes, "byte", "bytes")))),
        ("generation", Some(row.generation.clone())),
        ("previous", letter.previous.clone()),
        ("shard", Some(row.shard.to_string())),
        ("key", Some(row.key.clone())),
        ("handle", Some(row.handle.clone())),
    ];
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use holdfast_core::operate::Seconds;

    use super::*;

    fn row(outcome: Option<&str>) -> DeadRow {
        let failure = LastFailure { code: "status".to_owned(), status: Some(503), at: None };
        DeadRow {
            queue: "q".to_owned(),
            shard: 0,
            id: outcome.map(|_| "i".to_owned()),
            tenant: outcome.map(|_| "t".to_owned()),
            key: "09".repeat(16),
            handle: "h".to_owned(),
            generation: "g".to_owned(),
            outcome: outcome.map(str::to_owned),
            last_failure: outcome.map(|_| failure),
            attempts: outcome.map(|_| 4),
            lapses: outcome.map(|_| 1),
            forgiven: None,
            ended_at: outcome.map(|_| Seconds(1_000)),
            kept_until: Seconds(86_400_000),
        }
    }

    #[test]
    fn a_dead_letter_is_shown_with_what_ended_it() {
        let cells = cells(&row(Some("gave-up")));
        let expected = [
            "q",
            "i",
            "t",
            "gave-up",
            "status 503",
            "4",
            "1",
            "1970-01-01T00:00:01Z",
            "1970-01-02T00:00:00Z",
        ];
        assert_eq!(cells[..9], expected);
    }

    #[test]
    fn a_dead_letter_of_which_nothing_is_left_is_still_shown() {
        let cells = cells(&row(None));
        assert_eq!(cells[..8], ["q", "", "", "", "", "", "", ""]);
        assert_eq!(cells[9], "09".repeat(16));
    }

    #[test]
    fn what_several_calls_did_is_added_up() {
        let some = Redriven {
            outcome: "more".to_owned(),
            redriven: 2,
            by_outcome: [("gave-up".to_owned(), 2)].into(),
            cursor: Some("c".to_owned()),
            ..Redriven::default()
        };
        let mut all = Redriven::default();
        add(&mut all, &some);
        add(&mut all, &Redriven { outcome: "done".to_owned(), cursor: None, ..some });
        assert_eq!((all.redriven, all.by_outcome["gave-up"], all.cursor), (4, 4, None));
    }
}
