//! One attempt: a call to the gateway, watched by the lease, the deadline and the caller. What is
//! large is read first, under the same watch.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use holdfast_core::metrics;
use holdfast_core::model::{Envelope, Failure, FailureCode, Request};
use holdfast_core::script::SettleKind;
use holdfast_runtime::settings::Allowed;
use holdfast_runtime::traces::Span;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;
use tokio::task::{self, Id};
use tokio::time::{Instant, sleep, sleep_until};

use crate::backoff;
use crate::bodies::Submitted;
use crate::breaker::{Over, Sign};
use crate::claimer::Work;
use crate::classify::{Fault, sign_of_fault, sign_of_status};
use crate::decide::{self, Circumstances};
use crate::gateway::{Answer, Call, Reply, Sent};
use crate::held::Stop;
use crate::queue::{Calling, Queue};
use crate::settler::Settler;
use crate::traced::{self, Heard};

/// How a call came to its end.
enum End {
    Replied(Result<Reply, Fault>),
    Stopped(Stop),
    DeadlinePassed,
}

/// What is told of a call before its attempt is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum News {
    /// It was sent, and for the patience of its breaker not refused.
    Quiet,
    /// It is over. To settle it may take long.
    Over(Over),
}

/// What is told, and by which task.
pub(crate) type Told = (Id, News);

/// What the target's breaker wants of an attempt.
pub(crate) struct Watch {
    /// How long a call must go without a refusal for the breaker to want to know.
    pub(crate) patience: Option<Duration>,
    /// Whether it goes out as a probe.
    pub(crate) is_probe: bool,
    /// Is told. What finds no place there is told by the end of the attempt.
    pub(crate) news: Option<mpsc::Sender<Told>>,
}

impl Watch {
    fn tell(&self, news: News) {
        if let Some((to, task)) = self.news.as_ref().zip(task::try_id()) {
            let _ = to.try_send((task, news));
        }
    }
}

/// What is dispatched.
///
/// Of its ticket only what is needed behind the call: what is read of Redis lies in one buffer with all that came along, and
/// each piece that is kept keeps all of it.
struct Prepared {
    call: Call,
    /// In Unix ms, by the clock of Redis.
    deadline: u64,
    /// Dispatches so far, this one included.
    attempts: u32,
    /// What is told of it to a collector of traces. Boxed: few are told of, and all keep the room.
    span: Option<Box<Span>>,
}

/// A call that has gone out, and what counts at its end.
struct Out {
    sent: Sent,
    started: Instant,
    /// Until the deadline, when it went out.
    left: Duration,
    deadline: u64,
    attempts: u32,
    span: Option<Box<Span>>,
    /// Until the call is over.
    _calling: Calling,
}

/// Makes the attempt and settles it. Gives the end of its call.
///
/// What it holds here it holds for each call that is out, so nothing large goes into an `async fn` on the way to its call.
#[expect(clippy::manual_async_fn, reason = "an `async fn` keeps what it is given twice")]
pub(crate) fn run(
    mut work: Work,
    queue: Arc<Queue>,
    settler: Settler,
    watch: Watch,
) -> impl Future<Output = Over> + Send {
    async move {
        let (kind, sign) = match prepare(&mut work, &queue).await {
            Ok(prepared) => {
                let (out, reply) = send(prepared, work.deadline, &queue);
                // Aborted, its connection is closed, and the gateway sees that nobody waits.
                let end = tokio::select! {
                    biased;
                    reply = reply => End::Replied(reply),
                    why = work.claim.stopped() => End::Stopped(why),
                    () = sleep_until(work.deadline) => End::DeadlinePassed,
                    never = quiet(&watch, &out.sent) => match never {},
                };
                judge(end, out, &work, &queue, watch.is_probe)
            }
            Err(kind) => (kind, None),
        };
        let over = Over { sign, at: Instant::now() };
        // Not only by the end: a target that is back must not wait until its answer is kept.
        watch.tell(News::Over(over));
        settler.settle(work.claim, kind).await;
        over
    }
}

/// Hands a request back that was never dispatched, which says nothing of its target.
pub(crate) async fn hand_back(work: Work, settler: Settler) -> Over {
    settler.settle(work.claim, released(false, None)).await;
    Over::unsaid()
}

/// The call, or how to settle a request that gets none.
async fn prepare(work: &mut Work, queue: &Queue) -> Result<Prepared, SettleKind> {
    may_go_on(work)?;
    let ticket = work.ticket.take().ok_or_else(decide::unusable)?;
    let packed = read(work).await?.ok_or_else(decide::unusable)?;
    // A lease that is still ours now was ours when this was read: it is what we have leased.
    may_go_on(work)?;
    let mut request = Request::unpack(packed).map_err(|_| decide::unusable())?;
    let named = (&work.claim.owner.1, &*ticket);
    let span = traced::begin(&queue.traces, &queue.name, named, &request);
    if let Some(span) = &span {
        request.envelope.traceparent = Some(span.traceparent());
    }
    let call = call(request, queue).ok_or_else(decide::unusable)?;
    Ok(Prepared {
        call,
        deadline: ticket.deadline,
        attempts: ticket.attempts,
        span: span.map(Box::new),
    })
}

/// Nothing, or how to settle a request that is not to be called any more.
fn may_go_on(work: &Work) -> Result<(), SettleKind> {
    if work.cancel_asked {
        return Err(released(false, None));
    }
    if work.claim.is_lost() {
        return Err(stopped(Stop::Lost, false));
    }
    if work.deadline <= Instant::now() {
        return Err(decide::after_deadline(None));
    }
    Ok(())
}

/// What was submitted, or how to settle a request for which there was a reason to stop reading.
async fn read(work: &mut Work) -> Result<Option<Bytes>, SettleKind> {
    let large = match &mut work.request {
        Submitted::Read(request) => return Ok(request.take()),
        Submitted::Large(large) => large,
    };
    tokio::select! {
        biased;
        why = work.claim.stopped() => Err(stopped(why, false)),
        () = sleep_until(work.deadline) => Err(decide::after_deadline(None)),
        // Boxed: few requests are large, and each keeps the room of the largest state that it may come to.
        request = Box::pin(large.read()) => Ok(request),
    }
}

/// A request as a call; none if its path or its headers are none, or not what the queue allows.
///
/// Whoever wrote the envelope has checked it. But the credential that goes along is this side's to
/// guard.
fn call(request: Request, queue: &Queue) -> Option<Call> {
    let Request { envelope, body, .. } = request;
    if !allows(&queue.allowed, &envelope) {
        return None;
    }
    let uri = match &envelope.path {
        Some(path) => queue.gateway.at(path),
        None => queue.uri.clone(),
    };
    Some(Call { uri: uri?, headers: headers(&envelope)?, body })
}

fn allows(allowed: &Allowed, envelope: &Envelope) -> bool {
    envelope.path.as_deref().is_none_or(|path| allowed.path(path))
        && envelope.headers.iter().all(|(name, _)| allowed.header(name))
}

fn headers(envelope: &Envelope) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &envelope.headers {
        headers.append(name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?);
    }
    for (name, value) in
        [("x-request-id", &envelope.request_id), ("traceparent", &envelope.traceparent)]
    {
        if let Some(value) = value {
            headers.insert(name, HeaderValue::from_str(value).ok()?);
        }
    }
    Some(headers)
}

/// Hands the call to the client: what is awaited then keeps no room for it.
fn send(
    prepared: Prepared,
    deadline: Instant,
    queue: &Arc<Queue>,
) -> (Out, impl Future<Output = Result<Reply, Fault>> + Send + use<>) {
    let (started, left, sent) = (Instant::now(), until(deadline), Sent::default());
    let Prepared { call, deadline, attempts, span } = prepared;
    let (_calling, reply) = (queue.call(), queue.gateway.send(call, sent.clone()));
    (Out { sent, started, left, deadline, attempts, span, _calling }, reply)
}

/// What is made of the end of a call.
fn judge(
    end: End,
    out: Out,
    work: &Work,
    queue: &Queue,
    is_probe: bool,
) -> (SettleKind, Option<Sign>) {
    let Out { sent, started, left, deadline, attempts, span, _calling } = out;
    let end = in_time(end, work.claim.is_lost());
    if let Some(outcome) = label(&end) {
        metrics::dispatched(queue.name.as_str(), outcome, started.elapsed());
    }
    // Deadlines are judged by the clock of Redis: what it showed when this call began, and how long
    // ago that is.
    let began = Duration::from_millis(deadline).saturating_sub(left);
    let now = SystemTime::UNIX_EPOCH + began + started.elapsed();
    let (sign, heard) = (sign(&end, now), heard(&end));
    let max_attempts = queue.max_attempts;
    let (left, is_unsent_probe) = (until(work.deadline), is_probe && !sent.get());
    let at = Circumstances { attempts, max_attempts, left, now, is_unsent_probe };
    let kind = match end {
        End::Stopped(why) => stopped(why, sent.get()),
        End::DeadlinePassed => decide::after_deadline(Some(&at)),
        End::Replied(reply) => decide::after(reply, &at, &mut rand::rng()),
    };
    if let Some(span) = span {
        traced::end(*span, heard, &kind);
    }
    (kind, sign)
}

/// Tells once that the call was sent and is still out; never ends by itself.
async fn quiet(watch: &Watch, sent: &Sent) -> Infallible {
    if let Some(patience) = watch.patience {
        sent.wait().await;
        sleep(patience).await;
        watch.tell(News::Quiet);
    }
    pending().await
}

/// What the end of a call says of its target.
fn sign(end: &End, now: SystemTime) -> Option<Sign> {
    let said = |answer: &Answer| {
        let asked = backoff::retry_after(answer.header("retry-after"), now);
        sign_of_status(answer.status, asked)
    };
    match end {
        End::Replied(Ok(Reply::Whole(answer) | Reply::TooLarge(answer))) => Some(said(answer)),
        // Sent away is sent away. Any other half of an answer says no more than its fault.
        End::Replied(Ok(Reply::Broken(head, fault))) => match said(head) {
            busy @ Sign::Busy { .. } => Some(busy),
            _ => sign_of_fault(*fault),
        },
        End::Replied(Err(fault)) => sign_of_fault(*fault),
        End::Stopped(_) | End::DeadlinePassed => None,
    }
}

/// What comes once the lease may be another's comes too late to be published.
fn in_time(end: End, lost: bool) -> End {
    match end {
        End::Replied(_) if lost => End::Stopped(Stop::Lost),
        end => end,
    }
}

/// Nothing is published under a lease that may be another's. It is handed back all the same: if it
/// is still ours, it need not lapse first, and if it is not, the script says so.
fn stopped(why: Stop, sent: bool) -> SettleKind {
    let failure = |code| Some(Failure { code, status: 0 });
    match why {
        Stop::Lost => released(sent, failure(FailureCode::LeaseLost)),
        Stop::Cancelled => released(sent, None),
        Stop::Drained => released(sent, failure(FailureCode::WorkerDrained).filter(|_| sent)),
    }
}

fn released(sent: bool, failure: Option<Failure>) -> SettleKind {
    SettleKind::Release { sent, failure }
}

/// The outcome of a call that ran its course.
fn label(end: &End) -> Option<&'static str> {
    match end {
        End::Replied(Ok(Reply::Whole(answer) | Reply::TooLarge(answer))) => {
            Some(metrics::status_class(answer.status))
        }
        End::Replied(Err(fault) | Ok(Reply::Broken(_, fault))) => {
            Some(FailureCode::from(*fault).word())
        }
        End::DeadlinePassed => Some(FailureCode::AttemptTimeout.word()),
        End::Stopped(_) => None,
    }
}

/// What is told of the end of a call.
fn heard(end: &End) -> Heard {
    let failed = |code: FailureCode| Heard { status: None, error: Some(code.word()) };
    match end {
        End::Replied(Ok(Reply::Whole(answer) | Reply::TooLarge(answer))) => {
            let error = (answer.status >= 400).then(|| metrics::status_class(answer.status));
            Heard { status: Some(answer.status), error }
        }
        End::Replied(Ok(Reply::Broken(head, fault))) => {
            Heard { status: Some(head.status), error: Some(FailureCode::from(*fault).word()) }
        }
        End::Replied(Err(fault)) => failed(FailureCode::from(*fault)),
        End::DeadlinePassed => failed(FailureCode::AttemptTimeout),
        End::Stopped(Stop::Lost) => failed(FailureCode::LeaseLost),
        End::Stopped(Stop::Drained) => failed(FailureCode::WorkerDrained),
        End::Stopped(Stop::Cancelled) => Heard { status: None, error: Some("cancelled") },
    }
}

fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the futures that a function gives.
    fn size<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_attempt_is_small_while_its_call_is_out() {
        assert!(size(run) <= 1_344, "{} bytes", size(run));
    }

    #[test]
    fn headers_of_the_envelope_are_passed_on_and_broken_ones_are_no_call() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let envelope = Envelope {
            headers: vec![pair("x-a", "1"), pair("x-a", "2"), pair("x-request-id", "forged")],
            request_id: Some("r-1".to_owned()),
            traceparent: Some("00-a-b-01".to_owned()),
            ..Envelope::default()
        };
        let all = headers(&envelope).unwrap();
        assert_eq!(all.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(all.get_all("x-request-id").iter().collect::<Vec<_>>(), ["r-1"]);
        assert_eq!(all["traceparent"], "00-a-b-01");
        for (name, value) in [("x a", "1"), ("", "1"), ("x-a", "1\r\nx-b: 2"), ("x-a", "\0")] {
            let envelope = Envelope { headers: vec![pair(name, value)], ..Envelope::default() };
            assert!(headers(&envelope).is_none(), "{name:?}: {value:?}");
        }
    }

    #[test]
    fn a_target_that_sends_a_call_away_is_spared_also_if_the_rest_of_its_answer_is_broken() {
        let now = SystemTime::UNIX_EPOCH;
        let broken = |status, fault| {
            let headers = vec![("retry-after", Bytes::from_static(b"3"))];
            let head = Answer { status, headers, body: Bytes::new() };
            End::Replied(Ok(Reply::Broken(head, fault)))
        };
        let asked = Some(Duration::from_secs(3));
        for fault in [Fault::CutBody, Fault::LyingBody, Fault::Stall, Fault::AttemptTimeout] {
            let busy = |reason| Some(Sign::Busy { reason, asked });
            assert_eq!(sign(&broken(429, fault), now), busy("429"));
            assert_eq!(sign(&broken(503, fault), now), busy("503"));
            assert_eq!(sign(&broken(500, fault), now), None);
        }
        let end = broken(503, Fault::CutBody);
        assert_eq!(label(&end), Some("cut-body"));
        assert_eq!(heard(&end), Heard { status: Some(503), error: Some("cut-body") });
    }

    #[test]
    fn an_answer_that_comes_after_the_lease_is_not_published() {
        let fault = || End::Replied(Err(Fault::Reset));
        assert!(matches!(in_time(fault(), true), End::Stopped(Stop::Lost)));
        assert!(matches!(in_time(fault(), false), End::Replied(_)));
        assert!(matches!(in_time(End::DeadlinePassed, true), End::DeadlinePassed));
    }

    #[test]
    fn what_was_sent_is_charged_and_what_was_not_is_taken_back() {
        let lost = Some(Failure { code: FailureCode::LeaseLost, status: 0 });
        assert_eq!(stopped(Stop::Lost, true), released(true, lost));
        assert_eq!(stopped(Stop::Cancelled, true), released(true, None));
        assert_eq!(stopped(Stop::Drained, false), released(false, None));
    }
}
