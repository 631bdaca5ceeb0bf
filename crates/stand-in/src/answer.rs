//! The body of an answer: gives its bytes in pieces, at a pace, and fails where the script says.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::arrival::How;
use crate::journal::Record;
use crate::script::{Rule, Trickle};
use crate::wire::{Ending, Link};

/// How long the bytes before a cut have to reach the client: a reset overtakes what is not sent yet.
const FLUSH: Duration = Duration::from_millis(20);

/// An answer on its way out.
pub(crate) struct Answer {
    whole: Bytes,
    /// Where pieces of their own end; empty: one piece, of a known length.
    ends: Vec<usize>,
    given: usize,
    course: Course,
    pause: Option<Pin<Box<Sleep>>>,
    open: Option<Open>,
}

/// What the script wants of this answer.
#[derive(Default)]
pub(crate) struct Course {
    pace: Option<Trickle>,
    fault: Option<Fault>,
}

#[derive(Clone, Copy)]
enum Fault {
    Cut { at: usize, flushed: bool },
    Stall { at: usize },
}

/// The arrival that this is the answer to.
pub(crate) struct Open {
    pub(crate) record: Record,
    pub(crate) status: u16,
    pub(crate) link: Arc<Link>,
}

impl Course {
    /// As a rule says. If it names two faults, the cut is the one that happens.
    pub(crate) fn of(rule: &Rule) -> Self {
        let at = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let cut = rule.cut_after_bytes.map(|bytes| Fault::Cut { at: at(bytes), flushed: false });
        let stall = rule.stall_after_bytes.map(|bytes| Fault::Stall { at: at(bytes) });
        Self { pace: rule.trickle, fault: cut.or(stall) }
    }
}

impl Fault {
    fn at(self) -> usize {
        match self {
            Self::Cut { at, .. } | Self::Stall { at } => at,
        }
    }
}

impl Answer {
    /// An answer to no arrival: bytes, in one piece.
    pub(crate) fn plain(whole: Bytes) -> Self {
        Self {
            whole,
            ends: Vec::new(),
            given: 0,
            course: Course::default(),
            pause: None,
            open: None,
        }
    }

    /// The answer to an arrival.
    pub(crate) fn new(whole: Bytes, ends: Vec<usize>, course: Course, open: Open) -> Self {
        let mut it = Self { whole, ends, given: 0, course, pause: None, open: Some(open) };
        it.close_if_given();
        it
    }

    /// The fault, if the answer is long enough for it.
    fn fault(&self) -> Option<Fault> {
        self.course.fault.filter(|fault| fault.at() < self.whole.len())
    }

    fn piece(&mut self) -> Bytes {
        let mut end =
            self.ends.iter().copied().find(|end| *end > self.given).unwrap_or(self.whole.len());
        if let Some(pace) = self.course.pace {
            end = end.min(self.given.saturating_add(pace.bytes));
            self.pause = Some(Box::pin(sleep(Duration::from_millis(pace.every_ms))));
        }
        if let Some(fault) = self.fault() {
            end = end.min(fault.at());
        }
        let piece = self.whole.slice(self.given..end);
        self.given = end;
        piece
    }

    fn is_given(&self) -> bool {
        self.given == self.whole.len() && self.fault().is_none()
    }

    /// hyper does not ask again after the last byte, so the entry is closed with it.
    fn close_if_given(&mut self) {
        if self.is_given() {
            self.close(How::Given);
        }
    }

    fn close(&mut self, how: How) {
        if let Some(mut open) = self.open.take() {
            open.record.end(how, Some(open.status), self.whole.slice(..self.given));
        }
    }

    fn flush_before_cut(&mut self, at: usize) {
        self.course.fault = Some(Fault::Cut { at, flushed: true });
        self.pause = Some(Box::pin(sleep(FLUSH)));
    }

    /// What happens where the fault lies. Nothing wakes the answer after it: a reset takes the connection away,
    /// and in a stall the client's patience ends.
    fn fail(&mut self, fault: Fault) {
        let link = self.open.as_ref().map(|open| Arc::clone(&open.link));
        if let (Fault::Cut { .. }, Some(link)) = (fault, link) {
            self.close(How::Cut);
            link.end(Ending::Reset);
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            match this.fault().filter(|fault| this.given == fault.at()) {
                Some(Fault::Cut { flushed: false, at }) => this.flush_before_cut(at),
                Some(fault) => {
                    this.fail(fault);
                    return Poll::Pending;
                }
                None if this.is_given() => return Poll::Ready(None),
                None => {
                    let piece = this.piece();
                    this.close_if_given();
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_given()
    }

    fn size_hint(&self) -> SizeHint {
        if self.ends.is_empty() {
            SizeHint::with_exact((self.whole.len() - self.given) as u64)
        } else {
            SizeHint::default()
        }
    }
}

impl Drop for Answer {
    /// An answer that was not given whole has lost its client.
    fn drop(&mut self) {
        self.close(How::Gone);
    }
}
