//! `doctor`: whether Redis, its users and the keys of the queues are as they must be.

use holdfast_core::doctor::{self, Examination, Finding, Report};
use holdfast_core::redis::DISK_FULL;
use holdfast_core::{StoreError, counted, operate};

use crate::args::{DoctorArgs, Form};
use crate::failure::Failure;
use crate::notes::Notes;
use crate::output::Output;
use crate::store::Store;
use crate::table::table;

const HEADING: [&str; 6] = ["GRADE", "NAME", "PLACE", "COUNT", "WHAT", "SOME"];

/// Looks at everything, and fails if anything is a fault.
pub(crate) async fn run(args: &DoctorArgs, output: &mut Output) -> Result<(), Failure> {
    let mut store = Store::open(&args.redis)?;
    let mut listed = operate::queues(&store.redis).await;
    if store.redis.why_lost() == Some(DISK_FULL) {
        // Another way to connect, for a look.
        store = store.for_a_look()?;
        listed = operate::queues(&store.redis).await;
    }
    let (queues, unlisted) = match listed {
        Ok(listed) => (store.among(listed, args.queue.as_ref())?, None),
        Err(err) if err.refusal().is_none() && !matches!(err, StoreError::Reply { .. }) => {
            return store.told(Err(err));
        }
        Err(err) => (Vec::new(), Some(err)),
    };
    let what = Examination { queues, users: args.user.clone(), unlisted };
    let report = store.told(doctor::examine(&store.redis, what).await)?;
    match args.output {
        Form::Json => output.json(&report)?,
        Form::Table => {
            let rows = report.findings.iter().map(cells).collect();
            output.text(&table(&HEADING, rows))?;
        }
    }
    output.finish()?;
    Notes::plain().say(told(&report));
    if report.has_fault() { Err(Failure::Unwell) } else { Ok(()) }
}

fn cells(finding: &Finding) -> Vec<String> {
    vec![
        finding.grade.word().to_owned(),
        finding.name.clone(),
        finding.place.clone(),
        finding.count.to_string(),
        finding.told.clone(),
        finding.examples.join(" "),
    ]
}

fn told(report: &Report) -> String {
    let faults = if report.has_fault() { "something is at fault" } else { "no fault" };
    let Report { shards, requests, .. } = report;
    let shards = counted(*shards, "shard", "shards");
    let requests = counted(*requests, "request", "requests");
    format!("holdfastctl: {faults}; looked at {shards} and {requests}")
}
