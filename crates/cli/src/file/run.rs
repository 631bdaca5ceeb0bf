//! Submits lines, many at once, and collects how they end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::model::QueueName;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::feed::Fed;
use super::line::{Request, Unfit};
use super::sink::Sink;
use super::tally::Tally;
use crate::call::{Call, Target};
use crate::caller::{Caller, Trouble};
use crate::ended::{Ended, LineError, OutputLine};
use crate::failure::Failure;
use crate::item::{Item, Until};
use crate::notes::Notes;
use crate::output::Output;
use crate::reply::{Refusal, Reply};
use crate::requests::rest;

/// Submits on their way at once.
const SUBMITS_AT_ONCE: usize = 64;
/// Requests whose ends are awaited at once.
const WAITS_AT_ONCE: usize = 128;
/// How long one is awaited while others wait for their turn, and while none does.
const SHORT_WAIT: Duration = Duration::from_secs(2);
const LONG_WAIT: Duration = Duration::from_secs(20);
/// So many refused lines are told one by one.
const REFUSALS_TOLD: u64 = 20;

/// What all lines of a run share.
pub(super) struct Plan {
    pub(super) caller: Caller,
    pub(super) queue: QueueName,
    /// The file's name: every id starts with it.
    pub(super) file: String,
    pub(super) until: Until,
    /// Whether ends are awaited.
    pub(super) wait: bool,
}

/// A line on its way.
struct Line {
    number: u64,
    custom_id: Box<RawValue>,
    generation: Option<String>,
}

type Answered = (Line, Result<Reply, Trouble>);

/// One run over a file.
pub(super) struct Run<'a> {
    plan: Arc<Plan>,
    lines: Receiver<Fed>,
    /// Whether lines are to come.
    reading: bool,
    submits: JoinSet<Answered>,
    waits: JoinSet<Answered>,
    /// Requests whose turn to be awaited is to come, in the order in which they are likely to end.
    queued: VecDeque<Line>,
    sink: &'a mut Sink,
    output: &'a mut Output,
    notes: &'a Notes,
    tally: Tally,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        plan: Arc<Plan>,
        lines: Receiver<Fed>,
        sink: &'a mut Sink,
        output: &'a mut Output,
        notes: &'a Notes,
    ) -> Self {
        let tally = Tally { file: plan.file.clone(), ..Tally::default() };
        let (submits, waits, queued) = (JoinSet::new(), JoinSet::new(), VecDeque::new());
        Self { plan, lines, reading: true, submits, waits, queued, sink, output, notes, tally }
    }

    /// What became of the lines so far.
    pub(super) fn tally(&self) -> Tally {
        self.tally.clone()
    }

    /// Goes on until every line is over, or something concerns them all.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        loop {
            self.await_more();
            self.show();
            let has_room = self.reading && self.submits.len() < SUBMITS_AT_ONCE;
            tokio::select! {
                fed = self.lines.recv(), if has_room => self.take(fed)?,
                Some(done) = self.submits.join_next() => self.submitted(done)?,
                Some(done) = self.waits.join_next() => self.waited(done)?,
                else => return Ok(()),
            }
        }
    }

    fn show(&self) {
        let Tally { failed, refused, .. } = self.tally;
        let submitted = self.tally.submitted();
        let done = if self.plan.wait { self.tally.over() } else { submitted };
        self.notes.progress(done, format!("{submitted} submitted, {} failed", failed + refused));
    }

    fn take(&mut self, fed: Option<Fed>) -> Result<(), Failure> {
        match fed {
            Some(Fed::Request { number, request, share }) => {
                self.tally.requests += 1;
                self.submit(number, request, share);
                Ok(())
            }
            Some(Fed::Unfit { number, unfit: Unfit { custom_id, fault } }) => {
                self.tally.requests += 1;
                let (code, message) = (fault.code().to_owned(), fault.to_string());
                self.refuse(number, custom_id.as_deref(), LineError { code, message })
            }
            Some(Fed::Unreadable(err)) => Err(Failure::of_read("the file", &err)),
            Some(Fed::Changed) => {
                Err(Failure::Nonsense("the file changed while its lines were submitted"))
            }
            Some(Fed::End) => {
                self.reading = false;
                Ok(())
            }
            None => Err(Failure::Nonsense("the file was not read to its end")),
        }
    }

    fn submit(&mut self, number: u64, request: Request, share: OwnedSemaphorePermit) {
        let id = self.plan.id(number);
        let Request { custom_id, body, .. } = request;
        let item =
            Item { id: &id, until: &self.plan.until, custom_id: Some(&custom_id), payload: &body };
        let (item, plan) = (item.text(), Arc::clone(&self.plan));
        let line = Line { number, custom_id, generation: None };
        self.submits.spawn(async move { plan.submit(line, item, share).await });
    }

    /// Starts as many waits as may be.
    fn await_more(&mut self) {
        while self.waits.len() < WAITS_AT_ONCE
            && let Some(line) = self.queued.pop_front()
        {
            let wait = if self.queued.is_empty() { LONG_WAIT } else { SHORT_WAIT };
            let plan = Arc::clone(&self.plan);
            self.waits.spawn(async move { plan.wait(line, wait).await });
        }
    }

    fn submitted(&mut self, done: Result<Answered, JoinError>) -> Result<(), Failure> {
        let (mut line, reply) = answered(done)?;
        let reply = reply?;
        match reply.status {
            StatusCode::ACCEPTED => self.tally.accepted += 1,
            StatusCode::OK => self.tally.resumed += 1,
            _ => {
                let refusal = reply.refusal();
                if refusal.code != "id-reused" {
                    return self.unsubmitted(&line, refusal);
                }
                // The id says which line of which file it is: only the options can differ.
                self.tally.resumed += 1;
                self.tally.kept_other_options += 1;
            }
        }
        if self.plan.wait {
            line.generation = generation(&reply);
            self.queued.push_back(line);
        }
        Ok(())
    }

    /// A no to this line, or to all.
    fn unsubmitted(&mut self, line: &Line, refusal: Refusal) -> Result<(), Failure> {
        if matches!(refusal.status, 401 | 403 | 404 | 405) {
            return Err(refusal.into());
        }
        self.refuse(line.number, Some(&line.custom_id), refusal.into())
    }

    fn refuse(
        &mut self,
        number: u64,
        custom_id: Option<&RawValue>,
        error: LineError,
    ) -> Result<(), Failure> {
        self.tally.refused += 1;
        match self.tally.refused {
            told if told <= REFUSALS_TOLD => {
                self.notes.say(format!("line {number}: {} ({})", error.message, error.code));
            }
            told if told == REFUSALS_TOLD + 1 => self.notes.say("more lines are refused"),
            _ => {}
        }
        self.write(number, custom_id, error)
    }

    fn waited(&mut self, done: Result<Answered, JoinError>) -> Result<(), Failure> {
        let (line, reply) = answered(done)?;
        let reply = reply?;
        if reply.status == StatusCode::ACCEPTED {
            self.queued.push_back(line);
            return Ok(());
        }
        let ended = match Ended::read(reply) {
            Ok(ended) => ended,
            Err(refusal) => {
                self.tally.failed += 1;
                return self.write(line.number, Some(&line.custom_id), refusal.into());
            }
        };
        let count =
            if ended.is_success() { &mut self.tally.answered } else { &mut self.tally.failed };
        *count += 1;
        let id = self.plan.id(line.number);
        let written = ended.line(&id, Some(&line.custom_id))?;
        self.sink.write(&written, self.output)
    }

    fn write(
        &mut self,
        number: u64,
        custom_id: Option<&RawValue>,
        error: LineError,
    ) -> Result<(), Failure> {
        let id = self.plan.id(number);
        let line = OutputLine { id: &id, custom_id, response: None, error: Some(error) };
        self.sink.write(&line, self.output)
    }
}

impl Plan {
    fn id(&self, number: u64) -> String {
        format!("{}.{number}", self.file)
    }

    async fn submit(&self, line: Line, item: Bytes, share: OwnedSemaphorePermit) -> Answered {
        let reply = self.caller.call(&Call::submit(&self.queue, item)).await;
        drop(share);
        (line, reply)
    }

    async fn wait(&self, line: Line, wait: Duration) -> Answered {
        let target = Target {
            queue: self.queue.clone(),
            id: self.id(line.number),
            generation: line.generation.clone(),
        };
        let asked = Instant::now();
        let reply = self.caller.call(&target.result(wait)).await;
        if let Ok(reply) = &reply
            && reply.status == StatusCode::ACCEPTED
        {
            rest(reply, asked, wait).await;
        }
        (line, reply)
    }
}

/// The generation that a submit was told of, also by a no.
fn generation(reply: &Reply) -> Option<String> {
    #[derive(Deserialize)]
    struct Kept {
        generation: Option<String>,
    }
    serde_json::from_slice::<Kept>(&reply.body).ok()?.generation
}

fn answered(done: Result<Answered, JoinError>) -> Result<Answered, Failure> {
    done.map_err(|_| Failure::Nonsense("a call ended without a word"))
}
