//! `submit --file`: a file of OpenAI batch lines, each a request of its own.
//!
//! The file is read twice: `lines` and `digest` count its lines and name it, so that a request's id says
//! which line of which file it is; then `feed` takes the lines one by one (`line` reads each), `run` submits them, many
//! with one call (`group`), and collects how they end, and `sink` writes that down. The same file again finds what is there already, so whatever breaks
//! off is continued by the same command.

mod digest;
mod feed;
mod group;
mod line;
mod lines;
mod run;
mod sink;
mod tally;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::Api;
use crate::args::{Form, SubmitArgs};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::item::Until;
use crate::notes::Notes;
use crate::output::Output;

use digest::Named;
use feed::Feed;
use run::{Plan, Run};
use sink::Sink;

/// Lines that are read ahead of the calls.
const AHEAD: usize = 256;

/// Submits the lines of a file, and waits for their ends if that is asked. Fails if a line did.
pub(crate) async fn submit(
    path: &Path,
    args: &SubmitArgs,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut sink = Sink::new(args.out.as_deref());
    if sink.is_stdout() && args.output == Form::Json {
        let rule = "holdfastctl: --out - and --output json would both write to standard output";
        return Err(Failure::Usage(rule.to_owned()));
    }
    let api = Api::open(&args.api)?;
    let named = Named::read(path)?;
    if named.requests == 0 {
        let place = path.display().to_string();
        return Err(Failure::Input { place, rule: "holds no requests".to_owned() });
    }
    sink.open()?;

    let notes = Notes::with_bar(named.requests);
    let plan = Plan {
        caller: Caller::new(api, args.patience, notes.clone()).waiting_for_room(),
        queue: args.api.queue.clone(),
        file: named.name.clone(),
        until: Until::of(args.deadline, args.timeout.as_deref()),
        wait: args.wait,
    };
    let (sender, lines) = mpsc::channel(AHEAD);
    let feed = Feed { path: path.to_owned(), named, url: args.url.clone() };
    let mut reader = JoinSet::new();
    reader.spawn_blocking(move || feed.run(&sender));
    let mut run = Run::new(Arc::new(plan), lines, &mut sink, output, &notes);
    let ran = run.finish().await;
    let tally = run.tally();
    notes.finish();
    notes.say(&tally);
    if args.output == Form::Json {
        output.json(&tally)?;
    }
    match ran {
        Ok(()) if tally.is_clean() => Ok(()),
        Ok(()) => Err(Failure::Told),
        Err(failure) => {
            notes.say("holdfastctl: stopped early; the same command goes on where this one ended");
            Err(failure)
        }
    }
}
