//! Whole frames out of a stream of bytes.

use std::io;

use holdfast_local_redis::resp::{self, Value};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A frame as it came, and what it says.
pub(super) struct Frame {
    pub(super) raw: Vec<u8>,
    pub(super) value: Value,
}

impl Frame {
    /// The words of a request.
    pub(super) fn words(self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let words = match self.value {
            Value::Array(words) => words,
            other => vec![other],
        };
        (self.raw, words.iter().map(|word| word.bytes().unwrap_or_default().to_vec()).collect())
    }

    /// Whether it is a message that nobody asked for, on a connection that subscribed.
    pub(super) fn is_message(&self) -> bool {
        let first = self.value.array().and_then(|parts| parts.first()?.bytes());
        matches!(first, Some(b"message" | b"pmessage" | b"smessage"))
    }
}

/// One direction of a connection, frame by frame.
pub(super) struct Frames<R> {
    stream: R,
    unread: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// The next frame, or `None` at the end. Given up half-way, it loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some((value, used)) = resp::parse(&self.unread).map_err(io::Error::other)? {
                let rest = self.unread.split_off(used);
                let raw = std::mem::replace(&mut self.unread, rest);
                return Ok(Some(Frame { raw, value }));
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Ok(None);
            }
        }
    }
}
