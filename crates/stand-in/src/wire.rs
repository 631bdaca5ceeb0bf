//! A connection whose end can be scripted: hyper speaks over it, and it can be reset under hyper's feet.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// One half of a shared socket, for hyper; the other half can reset it, or write past hyper.
pub(crate) struct Wire(pub(crate) Arc<TcpStream>);

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(buf) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done.map(|_| ())),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(bufs) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Nothing to do: the connection's task drops the socket next, which sends the FIN.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// How the script ends a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By a reset (RST).
    Reset,
    /// By these bytes instead of an HTTP answer, and then the end of the stream (FIN).
    Raw(Bytes),
}

/// What an answer knows of its connection: the way to end it.
#[derive(Default)]
pub(crate) struct Link {
    ending: Mutex<Option<Ending>>,
    asked: Notify,
}

impl Link {
    /// Asks for the connection's end; the first ask wins.
    pub(crate) fn end(&self, ending: Ending) {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ending);
        self.asked.notify_one();
    }

    /// Waits until an end is asked for.
    pub(crate) async fn ended(&self) -> Ending {
        loop {
            self.asked.notified().await;
            if let Some(ending) = self.ending.lock().unwrap_or_else(PoisonError::into_inner).take()
            {
                return ending;
            }
        }
    }
}

/// Ends a connection that hyper has let go of.
pub(crate) async fn finish(stream: &TcpStream, ending: Ending) -> io::Result<()> {
    match ending {
        Ending::Reset => stream.set_zero_linger(),
        Ending::Raw(mut bytes) => {
            while !bytes.is_empty() {
                stream.writable().await?;
                match stream.try_write(&bytes) {
                    Ok(written) => drop(bytes.split_to(written)),
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                    Err(err) => return Err(err),
                }
            }
            Ok(())
        }
    }
}
