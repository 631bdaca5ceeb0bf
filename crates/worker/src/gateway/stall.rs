//! A connection that notices when an answer stops half-way.
//!
//! hyper hands over a head only when it is whole, so a head that stalls can be seen nowhere above
//! the connection. The rule: once something was read, the next bytes must come in time. Whatever
//! is written (a request, however slowly it is taken) starts over: an inference server may think
//! for as long as the attempt time-out allows before its first byte. So it may behind an interim
//! response (`100`, `102`, `103`), which says only that it thinks.
//!
//! Only for HTTP/1, where a connection serves one request at a time. An idle connection falls
//! under the rule too; it is closed and replaced, which harms nobody.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::time::{Instant, Sleep, sleep};

/// The cause of the read error that ends a stalled answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer stalled")]
pub(super) struct Stalled;

/// As much as is read at once where an answer may begin.
const LOOKED_AT: usize = 8 * 1024;

/// How an interim head begins.
const VERSION: &[u8] = b"HTTP/1.";

/// A connection under watch.
pub(super) struct Watched<T> {
    io: T,
    watch: Watch,
}

struct Watch {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    /// When something of an answer or of an interim head was read last, with nothing written since.
    last_read: Option<Instant>,
    next: Next,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A head, of which so many bytes have come that could be those of an interim one.
    Head(usize),
    /// The rest of an interim head, and whether its line is empty as yet.
    Interim(bool),
    /// An answer, or whatever is none.
    Answer,
}

impl Next {
    /// Goes over what was read.
    fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            *self = match *self {
                Self::Answer => return,
                Self::Head(at) if !may_be_interim(at, *byte) => Self::Answer,
                Self::Head(11) => Self::Interim(false),
                Self::Head(at) => Self::Head(at + 1),
                Self::Interim(true) if *byte == b'\n' => Self::Head(0),
                Self::Interim(_) if *byte == b'\n' => Self::Interim(true),
                Self::Interim(empty) => Self::Interim(empty && *byte == b'\r'),
            };
        }
    }
}

/// Whether this byte may stand there in `HTTP/1.1 10x`. Not in 101, behind which no answer comes.
fn may_be_interim(at: usize, byte: u8) -> bool {
    match at {
        0..7 => byte == VERSION[at],
        7 => byte.is_ascii_digit(),
        8 => byte == b' ',
        9 => byte == b'1',
        10 => byte == b'0',
        _ => byte.is_ascii_digit() && byte != b'1',
    }
}

impl<T> Watched<T> {
    /// Watches `io`.
    pub(super) fn new(io: T, limit: Duration) -> Self {
        let timer = Box::pin(sleep(limit));
        Self { io, watch: Watch { limit, timer, last_read: None, next: Next::Head(0) } }
    }

    /// A write, even one that has to wait, means that an answer is not due yet.
    fn writing(&mut self) {
        self.watch.last_read = None;
        if self.watch.next == Next::Answer {
            self.watch.next = Next::Head(0);
        }
    }
}

impl Watch {
    /// Reads, and looks at it as long as it may be what comes before an answer.
    fn poll_read<T: Read + Unpin>(
        &mut self,
        io: &mut T,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.next == Next::Answer {
            return Pin::new(io).poll_read(cx, buf);
        }
        let mut room = [const { MaybeUninit::uninit() }; LOOKED_AT];
        let most = buf.remaining().min(LOOKED_AT);
        let mut looked_at = ReadBuf::uninit(&mut room[..most]);
        let read = Pin::new(io).poll_read(cx, looked_at.unfilled());
        self.next.pass(looked_at.filled());
        buf.put_slice(looked_at.filled());
        read
    }

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
        let Self { io, watch } = &mut *self;
        let read = watch.poll_read(io, cx, buf);
        if read.is_pending() {
            return watch.poll_stalled(cx);
        }
        watch.last_read = (watch.next != Next::Head(0)).then(Instant::now);
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
