//! A socket whose peer has to read: an answer that nobody takes does not occupy us for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::activity::Activity;

/// A socket that tells when its peer takes something, and fails when it takes nothing for too long.
pub(super) struct Stalled {
    socket: TcpStream,
    activity: Activity,
    allowed: Duration,
    /// Runs while the peer takes nothing.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Stalled {
    pub(super) fn new(socket: TcpStream, activity: Activity, allowed: Duration) -> Self {
        Self { socket, activity, allowed, alarm: None }
    }

    /// Passes on what the socket said, unless it has said "not yet" for too long.
    fn judge(
        &mut self,
        said: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if said.is_ready() {
            self.alarm = None;
            self.activity.wrote();
            return said;
        }
        let allowed = self.allowed;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(allowed)));
        alarm.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stalled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stalled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.judge(said, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let said = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.judge(said, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
