//! The wire protocol of Redis, version 2: enough to ask a server a question and to read any frame.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How deep arrays may lie in each other.
const MAX_DEPTH: usize = 32;

/// One value as Redis sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing: a null bulk string or a null array.
    Nil,
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bytes(Vec<u8>),
    /// A list of values.
    Array(Vec<Value>),
    /// An error, as the server words it, without the leading `-`.
    Error(String),
    /// A status such as `OK`.
    Simple(String),
}

impl Value {
    /// The bytes of a bulk string or a status.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The same as text, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// An integer, also one that is written as a string.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => self.text()?.parse().ok(),
        }
    }

    /// The parts of a list.
    pub fn array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    /// A bulk string.
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl From<&[u8]> for Value {
    /// A bulk string.
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

/// Bytes that are no frame of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a frame of the redis protocol")]
pub struct Malformed;

/// A request as clients send it: an array of bulk strings.
pub fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut frame = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        frame.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        frame.extend_from_slice(word);
        frame.extend_from_slice(b"\r\n");
    }
    frame
}

/// Reads one value from the front of `input`, with the number of bytes it took; `None` if it isn't whole yet.
pub fn parse(input: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    // Nothing is copied before all of it is there: a long answer arrives in many pieces.
    match length(input, MAX_DEPTH)? {
        None => Ok(None),
        Some(_) => parse_within(input, MAX_DEPTH),
    }
}

/// How many bytes the value at the front takes, if they are all there.
fn length(input: &[u8], depth: usize) -> Result<Option<usize>, Malformed> {
    let Some((line, after)) = first_line(input)? else { return Ok(None) };
    match line.split_first().ok_or(Malformed)? {
        (b'$', count) => {
            // A null has neither content nor its end.
            let content = number(count)?
                .checked_add(2)
                .filter(|&bytes| bytes > 1)
                .map_or(Ok(0), usize::try_from);
            let end = after.checked_add(content.map_err(|_| Malformed)?).ok_or(Malformed)?;
            Ok((end <= input.len()).then_some(end))
        }
        (b'*', count) => {
            let (mut at, depth) = (after, depth.checked_sub(1).ok_or(Malformed)?);
            for _ in 0..number(count)? {
                let Some(used) = length(input.get(at..).unwrap_or_default(), depth)? else {
                    return Ok(None);
                };
                at += used;
            }
            Ok(Some(at))
        }
        _ => Ok(Some(after)),
    }
}

fn parse_within(input: &[u8], depth: usize) -> Result<Option<(Value, usize)>, Malformed> {
    let Some((line, after)) = first_line(input)? else { return Ok(None) };
    let (&kind, rest) = line.split_first().ok_or(Malformed)?;
    let value = match kind {
        b'+' => Value::Simple(String::from_utf8_lossy(rest).into_owned()),
        b'-' => Value::Error(String::from_utf8_lossy(rest).into_owned()),
        b':' => Value::Int(number(rest)?),
        b'$' => return parse_bulk(input, number(rest)?, after),
        b'*' => return parse_array(input, number(rest)?, after, depth),
        _ => return Err(Malformed),
    };
    Ok(Some((value, after)))
}

/// The first line without its end, and where the next begins.
fn first_line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    match input.iter().position(|&byte| byte == b'\n') {
        None => Ok(None),
        Some(end) => match input.get(..end).and_then(|line| line.strip_suffix(b"\r")) {
            Some(line) => Ok(Some((line, end + 1))),
            None => Err(Malformed),
        },
    }
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

fn parse_bulk(
    input: &[u8],
    length: i64,
    start: usize,
) -> Result<Option<(Value, usize)>, Malformed> {
    if length == -1 {
        return Ok(Some((Value::Nil, start)));
    }
    let length = usize::try_from(length).map_err(|_| Malformed)?;
    let end = start.checked_add(length).ok_or(Malformed)?;
    let (Some(content), Some(tail)) = (input.get(start..end), input.get(end..end + 2)) else {
        return Ok(None);
    };
    if tail != b"\r\n" {
        return Err(Malformed);
    }
    Ok(Some((Value::Bytes(content.to_vec()), end + 2)))
}

fn parse_array(
    input: &[u8],
    length: i64,
    start: usize,
    depth: usize,
) -> Result<Option<(Value, usize)>, Malformed> {
    if length == -1 {
        return Ok(Some((Value::Nil, start)));
    }
    let length = usize::try_from(length).map_err(|_| Malformed)?;
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let (mut values, mut at) = (Vec::new(), start);
    for _ in 0..length {
        let Some((value, used)) = parse_within(input.get(at..).unwrap_or_default(), depth)? else {
            return Ok(None);
        };
        values.push(value);
        at += used;
    }
    Ok(Some((Value::Array(values), at)))
}

/// One connection to a server on this machine; every step on it has a time limit.
pub(crate) struct Link {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Link {
    pub(crate) fn open(port: u16, limit: Duration) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Sends one command and waits for its answer.
    pub(crate) fn call(&mut self, words: &[&str]) -> io::Result<Value> {
        self.stream.write_all(&encode(words))?;
        let mut chunk = [0; 4096];
        loop {
            if let Some((value, used)) = parse(&self.unread).map_err(io::Error::other)? {
                self.unread.drain(..used);
                return Ok(value);
            }
            let read = self.stream.read(&mut chunk)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.unread.extend_from_slice(chunk.get(..read).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_read_with_its_length() {
        let nested = Value::Array(vec![
            Value::Int(-7),
            Value::Array(vec![]),
            Value::Nil,
            Value::from("a\r\nb"),
        ]);
        let cases: [(&[u8], Value); 7] = [
            (b"+OK\r\n", Value::Simple("OK".into())),
            (b"-ERR no\r\n", Value::Error("ERR no".into())),
            (b":42\r\n", Value::Int(42)),
            (b"$-1\r\n", Value::Nil),
            (b"*-1\r\n", Value::Nil),
            (b"$0\r\n\r\n", Value::from("")),
            (b"*4\r\n:-7\r\n*0\r\n$-1\r\n$4\r\na\r\nb\r\n", nested),
        ];
        for (wire, value) in cases {
            let more = [wire, b"+next\r\n"].concat();
            assert_eq!(parse(&more), Ok(Some((value, wire.len()))));
        }
    }

    #[test]
    fn a_frame_that_is_not_whole_waits_for_more() {
        let frame = encode(&["SET", "key", "a value"]);
        for end in 0..frame.len() {
            assert_eq!(parse(&frame[..end]), Ok(None), "cut at {end}");
        }
        assert!(matches!(parse(&frame), Ok(Some((_, used))) if used == frame.len()));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let deep = "*1\r\n".repeat(MAX_DEPTH + 2);
        for wire in ["hello\r\n", "$x\r\n", "$-2\r\n", "+no return\n", "\r\n", "$1\r\nabc", &deep] {
            assert_eq!(parse(wire.as_bytes()), Err(Malformed), "{wire:?}");
        }
    }
}
