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

use std::io::{self, BufRead};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;
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
pub(crate) use group::outcomes;
use line::{Request, parse};
use lines::{Line, Lines};
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
    if let Some(out) = args.out.as_deref().filter(|out| is_same_file(path, out)) {
        let (out, path) = (out.display(), path.display());
        let rule = format!(
            "holdfastctl: --out {out} is the very file of --file {path}: it would be overwritten"
        );
        return Err(Failure::Usage(rule));
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
    let ran = ran.and_then(|()| sink.begin());
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

/// Whether two paths lead to one file, by whatever names and links. What can't be looked at is told by whoever opens it.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    matches!((file(one), file(other)), (Ok(one), Ok(other)) if one == other)
}

/// The lines of a file that hold something, by their numbers.
pub(crate) fn lines(file: impl BufRead) -> io::Result<Vec<(u64, Option<Vec<u8>>)>> {
    let mut lines = Lines::new(file);
    let mut found = Vec::new();
    while let Some(Line { number, bytes }) = lines.next()? {
        found.push((number, bytes));
    }
    Ok(found)
}

/// What is read of a line: its `custom_id` as it is written and as it is read, and its body.
pub(crate) type Fields = (Box<RawValue>, String, Box<RawValue>);

/// Reads a line whose requests go to `url`; or tells what is wrong with it.
pub(crate) fn batch_line(line: &[u8], url: &str) -> Result<Fields, String> {
    let read = parse(line, url).map_err(|unfit| unfit.fault.to_string());
    read.map(|Request { custom_id, name, body }| (custom_id, name, body))
}
