//! Submits lines, many at once, and collects how they end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::model::QueueName;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::feed::Fed;
use super::group::{Answered, Group, Line, Pending, Round};
use super::line::{Request, Unfit};
use super::sink::Sink;
use super::tally::Tally;
use crate::call::{Call, Target};
use crate::caller::{Caller, Tries};
use crate::ended::{Ended, LineError, OutputLine};
use crate::failure::Failure;
use crate::item::{Item, Until};
use crate::notes::Notes;
use crate::output::Output;
use crate::reply::{Refusal, Reply};
use crate::requests::rest;

/// Calls with lines to submit that are on their way at once, also while they rest before they are sent again.
const SUBMITS_AT_ONCE: usize = 4;
/// How long a call waits for further lines to take along.
const GATHER: Duration = Duration::from_millis(10);
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

/// One run over a file.
pub(super) struct Run<'a> {
    plan: Arc<Plan>,
    lines: Receiver<Fed>,
    /// Whether lines are to come.
    reading: bool,
    /// The lines of the next call, and when it is sent at the latest.
    group: Group,
    due: Instant,
    submits: JoinSet<Round>,
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
        let (group, due) = (Group::default(), Instant::now());
        Self {
            plan,
            lines,
            reading: true,
            group,
            due,
            submits,
            waits,
            queued,
            sink,
            output,
            notes,
            tally,
        }
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
            let has_place = self.submits.len() < SUBMITS_AT_ONCE;
            tokio::select! {
                fed = self.lines.recv(), if has_place && self.reading => self.take(fed)?,
                () = sleep_until(self.due), if has_place && !self.group.is_empty() => self.send(),
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
                self.due = Instant::now();
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
        let item = item.text();
        let line = Line { number, custom_id, generation: None };
        if !self.group.has_room_for(&item) {
            self.send();
        }
        if self.group.is_empty() {
            self.due = Instant::now() + GATHER;
        }
        self.group.push(Pending { line, item, _share: share, tries: Tries::default() });
        if self.group.is_full() {
            self.due = Instant::now();
        }
    }

    /// Sends what was gathered.
    fn send(&mut self) {
        let (plan, group) = (Arc::clone(&self.plan), std::mem::take(&mut self.group));
        self.submits.spawn(async move { plan.submit(group, Duration::ZERO).await });
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

    /// Some lines are over; the rest comes again.
    fn submitted(&mut self, done: Result<Round, JoinError>) -> Result<(), Failure> {
        let Round { answered, rest, pause } = ended(done)?;
        if !rest.is_empty() {
            let plan = Arc::clone(&self.plan);
            self.submits.spawn(async move { plan.submit(rest, pause).await });
        }
        // Whatever stops the run, those that are over are counted.
        let told: Vec<_> = answered.into_iter().map(|it| self.submitted_one(it)).collect();
        told.into_iter().collect()
    }

    fn submitted_one(&mut self, (mut line, reply): Answered) -> Result<(), Failure> {
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
        if refusal.concerns_all() {
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
        let (line, reply) = ended(done)?;
        let reply = reply?;
        if reply.status == StatusCode::ACCEPTED {
            self.queued.push_back(line);
            return Ok(());
        }
        let end = match Ended::read(reply) {
            Ok(end) => end,
            // The line has not ended: a later run finds how it does.
            Err(refusal) if refusal.concerns_all() => return Err(refusal.into()),
            Err(refusal) => {
                self.tally.failed += 1;
                return self.write(line.number, Some(&line.custom_id), refusal.into());
            }
        };
        let count =
            if end.is_success() { &mut self.tally.answered } else { &mut self.tally.failed };
        *count += 1;
        let id = self.plan.id(line.number);
        let written = end.line(&id, Some(&line.custom_id))?;
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

    /// Sends lines after a pause: with one call, unless they are too long for that together.
    async fn submit(&self, group: Group, pause: Duration) -> Round {
        sleep(pause).await;
        let (mut round, mut groups) = (Round::default(), vec![group]);
        while let Some(mut group) = groups.pop() {
            let came = self.caller.call_for_lines(&Call::batch(&self.queue, group.body())).await;
            if let Some(halves) = group.halves(&came) {
                groups.extend(halves);
                continue;
            }
            let again = |trouble, asked, tries: &mut _| self.caller.again(trouble, asked, tries);
            round.add(group.round(came, again));
        }
        round
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

fn ended<T>(done: Result<T, JoinError>) -> Result<T, Failure> {
    done.map_err(|_| Failure::Nonsense("a call ended without a word"))
}
