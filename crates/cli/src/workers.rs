//! `worker ls`: who is there, and what each holds.

use holdfast_core::operate::{WorkerRow, span};

use crate::args::{Form, OpsArgs};
use crate::failure::Failure;
use crate::leases::count;
use crate::ops::Ops;
use crate::output::Output;
use crate::table::table;

const HEADING: [&str; 6] = ["WORKER", "SESSION", "VERSION", "CONCURRENCY", "LEASES", "SEEN"];

/// Lists the workers, those seen last first.
pub(crate) async fn list(args: &OpsArgs, output: &mut Output) -> Result<(), Failure> {
    let rows = Ops::open(args)?.worker_rows().await?;
    match args.output {
        Form::Json => output.json(&rows),
        Form::Table => output.text(&table(&HEADING, rows.iter().map(cells).collect())),
    }
}

fn cells(row: &WorkerRow) -> Vec<String> {
    vec![
        row.name.clone(),
        row.session.clone(),
        row.version.clone().unwrap_or_default(),
        count(row.concurrency),
        row.leases.to_string(),
        format!("{} ago", span(0, row.seen_seconds_ago.0)),
    ]
}
