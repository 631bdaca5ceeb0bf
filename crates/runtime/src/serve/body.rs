//! Bodies on their way in, which must end in time, and out, which keep their request running.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::activity::{Activity, Running};
use crate::BoxError;

/// The body of a request did not end in time.
#[derive(Debug, thiserror::Error)]
#[error("the body took too long")]
pub struct BodyTimeout;

impl BodyTimeout {
    /// Whether this is why something failed.
    pub fn caused(failure: &(dyn Error + 'static)) -> bool {
        let mut cause = Some(failure);
        while let Some(err) = cause {
            if err.is::<Self>() {
                return true;
            }
            cause = err.source();
        }
        false
    }
}

/// By when the body of a request must have come. Each request carries it; whoever takes a body in parts, each of which
/// may take that long, begins anew with each.
#[derive(Clone, Debug)]
pub struct BodyDeadline {
    allowed: Duration,
    by: Arc<Mutex<Instant>>,
}

impl BodyDeadline {
    pub(super) fn new(allowed: Duration) -> Self {
        Self { allowed, by: Arc::new(Mutex::new(Instant::now() + allowed)) }
    }

    /// What is to come may take as long again, from now on.
    pub fn begin_anew(&self) {
        // One value is replaced: whole after any panic.
        *self.by.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + self.allowed;
    }

    fn by(&self) -> Instant {
        *self.by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's body, which must have come by a point in time.
pub(super) struct TimedBody {
    inner: Incoming,
    deadline: BodyDeadline,
    /// Told while it is waited for.
    activity: Activity,
    starved: bool,
    /// Made when the body is first waited for: most have come with their head.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl TimedBody {
    pub(super) fn new(inner: Incoming, deadline: BodyDeadline, activity: Activity) -> Self {
        Self { inner, deadline, activity, starved: false, alarm: None }
    }

    fn starve(&mut self, starved: bool) {
        if starved != self.starved {
            self.starved = starved;
            self.activity.starve(starved);
        }
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.starve(false);
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) {
            this.starve(false);
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        this.starve(true);
        let by = this.deadline.by();
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(sleep_until(by)));
        if alarm.deadline() != by {
            alarm.as_mut().reset(by);
        }
        alarm.as_mut().poll(cx).map(|()| Some(Err(BodyTimeout.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An answer's body; until the last of it is handed over, its request runs.
pub(super) struct RunningBody {
    pub(super) inner: Body,
    pub(super) _running: Running,
}

impl HttpBody for RunningBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
