//! `why` and `retry-now`: one request, by tenant and id.

use holdfast_core::model::{Identity, RequestId};
use holdfast_core::operate::{Acted, Why, utc};

use crate::args::{Form, OneArgs, RetryArgs};
use crate::failure::Failure;
use crate::ops::Ops;
use crate::output::Output;
use crate::suggestion;
use crate::table::facts;

/// Says where a request is and why, and what would help.
pub(crate) async fn why(one: &OneArgs, output: &mut Output) -> Result<(), Failure> {
    let mut told = Ops::open(&one.ops)?.why(&one.queue, &identity(one)?).await?;
    told.suggestion = suggestion::reaching(&told.suggestion, &one.ops);
    match one.ops.output {
        Form::Json => output.json(&told),
        Form::Table => output.text(&facts(told_pairs(&told))),
    }
}

/// Pulls a back-off forward.
pub(crate) async fn retry_now(args: &RetryArgs, output: &mut Output) -> Result<(), Failure> {
    let one = &args.one;
    let due = args.due.map(|seconds| (seconds * 1000.0).round() as u64);
    let done =
        Ops::open(&one.ops)?.retry_now(&one.queue, &identity(one)?, (due, args.dry_run)).await?;
    show(&done, one.ops.output, output)
}

/// The request that the command line names.
pub(crate) fn identity(args: &OneArgs) -> Result<Identity, Failure> {
    let id = RequestId::try_from(args.id.as_str());
    let id = id.map_err(|_| Failure::Usage("holdfastctl: an id has 1 to 1024 bytes".to_owned()))?;
    Ok(Identity { tenant: args.tenant.clone(), id })
}

/// Prints what an action found and did.
pub(crate) fn show(done: &Acted, form: Form, output: &mut Output) -> Result<(), Failure> {
    match form {
        Form::Json => output.json(done),
        Form::Table => output.text(&facts(acted_pairs(done))),
    }
}

fn acted_pairs(done: &Acted) -> Vec<(String, String)> {
    let pairs = [
        ("queue", Some(done.queue.clone())),
        ("tenant", Some(done.tenant.clone())),
        ("id", Some(done.id.clone())),
        ("generation", Some(done.generation.clone())),
        ("action", Some(done.action.clone())),
        ("outcome", Some(done.outcome.clone())),
        ("before", Some(done.before.clone())),
        ("due", done.due.map(|due| utc(due.0))),
        ("fence", done.fence.clone()),
    ];
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn told_pairs(told: &Why) -> Vec<(String, String)> {
    let time = |at: Option<holdfast_core::operate::Seconds>| at.map(|at| utc(at.0));
    let lease = told.lease.as_ref();
    let pairs = [
        ("why", Some(told.sentence.clone())),
        ("try", Some(told.suggestion.clone())),
        ("state", Some(told.state.clone())),
        ("generation", told.generation.clone()),
        ("attempts", told.attempts.map(|it| it.to_string())),
        ("lapses", told.lapses.map(|it| it.to_string())),
        ("submitted", time(told.submitted_at)),
        ("deadline", time(told.deadline)),
        ("next try", time(told.next_try_at)),
        ("last failure", told.last_failure.as_ref().map(|it| it.words())),
        ("worker", lease.and_then(|lease| lease.worker.clone())),
        ("fence", lease.map(|lease| lease.fence.clone())),
        ("shard", Some(told.shard.to_string())),
        ("key", Some(told.key.clone())),
    ];
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
