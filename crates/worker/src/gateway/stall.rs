//! A connection that notices when an answer stops half-way.
//!
//! hyper hands over a head only when it is whole, so a head that stalls can be seen nowhere above
//! the connection. The rule: once something was read, the next bytes must come in time. Whatever
//! is written (a request, however slowly it is taken) starts over: an inference server may think
//! for as long as the attempt time-out allows before its first byte.
//!
//! Only for HTTP/1, where a connection serves one request at a time. An idle connection falls
//! under the rule too; it is closed and replaced, which harms nobody.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::time::{Instant, Sleep, sleep};

/// The cause of the read error that ends a stalled answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer stalled")]
pub(super) struct Stalled;

/// A connection under watch.
pub(super) struct Watched<T> {
    io: T,
    watch: Option<Watch>,
}

struct Watch {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    /// When something was read last, with nothing written since.
    last_read: Option<Instant>,
}

impl<T> Watched<T> {
    /// Watches `io`, if there is a limit.
    pub(super) fn new(io: T, limit: Option<Duration>) -> Self {
        let watch = |limit| Watch { limit, timer: Box::pin(sleep(limit)), last_read: None };
        Self { io, watch: limit.map(watch) }
    }

    /// A write, even one that has to wait, means that an answer is not due yet.
    fn writing(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.last_read = None;
        }
    }
}

impl Watch {
    /// Nothing to read: is it for too long?
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(last) = self.last_read else { return Poll::Pending };
        let due = last + self.limit;
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        let stalled = || Err(io::Error::new(io::ErrorKind::TimedOut, Stalled));
        self.timer.as_mut().poll(cx).map(|()| stalled())
    }
}

impl<T: Read + Unpin> Read for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        let Some(watch) = &mut self.watch else { return read };
        if read.is_pending() {
            return watch.poll_stalled(cx);
        }
        watch.last_read = Some(Instant::now());
        read
    }
}

impl<T: Write + Unpin> Write for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writing();
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writing();
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

impl<T: Connection> Connection for Watched<T> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}
