//! `lease`: what is leased, to whom, and until when; the end of one.

use holdfast_core::operate::{LeaseRow, span};

use crate::args::{Form, LEASES, LeaseLsArgs, ReleaseArgs};
use crate::failure::Failure;
use crate::listing::tell_rest;
use crate::ops::Ops;
use crate::output::Output;
use crate::single::{identity, show};
use crate::table::table;

const HEADING: [&str; 11] = [
    "QUEUE",
    "ID",
    "TENANT",
    "WORKER",
    "ATTEMPTS",
    "LAPSES",
    "AGE",
    "EXPIRES-IN",
    "CANCEL",
    "KEY",
    "HANDLE",
];

/// Lists the leases of all shards, in the order in which they lapse.
pub(crate) async fn list(args: &LeaseLsArgs, output: &mut Output) -> Result<(), Failure> {
    let ops = Ops::open(&args.list.ops)?;
    let list = ops.lease_rows(args.list.queue.as_ref(), args.limit).await?;
    tell_rest(&list, args.limit, LEASES);
    match args.list.ops.output {
        Form::Json => output.json(&list.rows),
        Form::Table => output.text(&table(&HEADING, list.rows.iter().map(cells).collect())),
    }
}

/// Ends the lease of a request.
pub(crate) async fn release(args: &ReleaseArgs, output: &mut Output) -> Result<(), Failure> {
    let one = &args.one;
    let how = (args.fence, args.dry_run);
    let done = Ops::open(&one.ops)?.release(&one.queue, &identity(one)?, how).await?;
    show(&done, one.ops.output, output)
}

fn cells(row: &LeaseRow) -> Vec<String> {
    let who = row.worker.clone().or_else(|| Some(format!("session {}", row.session.as_ref()?)));
    let cancel = if row.cancel_asked == Some(true) { "asked" } else { "" };
    vec![
        row.queue.clone(),
        row.id.clone().unwrap_or_default(),
        row.tenant.clone().unwrap_or_default(),
        who.unwrap_or_default(),
        count(row.attempts),
        count(row.lapses),
        row.age_seconds.map_or_else(String::new, |age| span(0, age.0)),
        span(0, row.left_seconds.0),
        cancel.to_owned(),
        row.key.clone(),
        row.handle.clone(),
    ]
}

/// A number that may be lost.
pub(crate) fn count(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use holdfast_core::operate::Seconds;

    use super::*;

    fn row(worker: Option<&str>) -> LeaseRow {
        LeaseRow {
            queue: "q".to_owned(),
            shard: 0,
            id: Some("i\u{1b}".to_owned()),
            tenant: Some("t".to_owned()),
            key: "09".repeat(16),
            handle: "h".to_owned(),
            fence: "f".to_owned(),
            worker: worker.map(str::to_owned),
            session: Some("abababababababab".to_owned()),
            attempts: Some(2),
            lapses: Some(1),
            forgiven: Some(0),
            cancel_asked: Some(false),
            claimed_at: Some(Seconds(10_000)),
            expires_at: Seconds(17_000),
            age_seconds: Some(Seconds(2_500)),
            left_seconds: Seconds(4_500),
        }
    }

    #[test]
    fn a_lease_is_shown_with_its_holder_by_name_or_by_session() {
        let cells = super::cells(&row(Some("gpu-7")));
        assert_eq!(cells[..9], ["q", "i\u{1b}", "t", "gpu-7", "2", "1", "2.5s", "4.5s", ""]);
        assert_eq!(super::cells(&row(None))[3], "session abababababababab");
    }
}
