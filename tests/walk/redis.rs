//! A connection to the server under test: many commands in one flight, and what is published meanwhile.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use holdfast_model::value::Value;

/// How long an answer may take: a script is through within some ms, or never.
const PATIENCE: Duration = Duration::from_secs(3);

/// A command: its name and arguments.
pub(crate) type Command = Vec<Vec<u8>>;

/// Words into a command.
pub(crate) fn command<const N: usize>(words: [&[u8]; N]) -> Command {
    words.map(<[u8]>::to_vec).to_vec()
}

pub(crate) struct Link {
    stream: BufReader<TcpStream>,
    pushed: Vec<Vec<Value>>,
    line: Vec<u8>,
}

impl Link {
    /// Connects.
    pub(crate) fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let stream = BufReader::with_capacity(1 << 16, stream);
        Ok(Self { stream, pushed: Vec::new(), line: Vec::new() })
    }

    /// Sends all commands in one flight, and reads all answers.
    pub(crate) fn flight(&mut self, commands: &[Command]) -> io::Result<Vec<Value>> {
        self.send(commands)?;
        commands.iter().map(|_| self.answer()).collect()
    }

    /// Wants what is published on the same connection.
    pub(crate) fn with_pushes(mut self) -> io::Result<Self> {
        self.one(command([b"HELLO", b"3"]))?;
        Ok(self)
    }

    /// Hears what is published on a channel. The server tells that by a push: only the PING has an answer.
    pub(crate) fn subscribe(&mut self, channel: &[u8]) -> io::Result<()> {
        self.send(&[command([b"SSUBSCRIBE", channel]), command([b"PING"])])?;
        self.answer().map(drop)
    }

    pub(crate) fn send(&mut self, commands: &[Command]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
            for word in words {
                bytes.extend(format!("${}\r\n", word.len()).into_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.stream.get_mut().write_all(&bytes)
    }

    pub(crate) fn one(&mut self, words: Command) -> io::Result<Value> {
        Ok(self.flight(&[words])?.remove(0))
    }

    /// What was published since the last look, as channel and message.
    pub(crate) fn messages(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let message = |push: Vec<Value>| match <[Value; 3]>::try_from(push) {
            Ok([Value::Bytes(kind), Value::Bytes(channel), Value::Bytes(message)])
                if kind == b"smessage" =>
            {
                Some((channel, message))
            }
            _ => None,
        };
        self.pushed.drain(..).filter_map(message).collect()
    }

    pub(crate) fn answer(&mut self) -> io::Result<Value> {
        loop {
            match self.value()? {
                Value::Push(push) => self.pushed.push(push),
                value => return Ok(value),
            }
        }
    }

    fn value(&mut self) -> io::Result<Value> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        let [kind, rest @ .., b'\r', b'\n'] = self.line.as_slice() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let text = || String::from_utf8_lossy(rest).into_owned();
        match kind {
            b'+' => Ok(Value::Status(text())),
            b'-' => Ok(Value::Error(text())),
            b'_' => Ok(Value::Nil),
            _ => {
                let (kind, number) = (*kind, number(rest)?);
                self.counted(kind, number)
            }
        }
    }

    /// A value that begins with a number.
    fn counted(&mut self, kind: u8, number: i64) -> io::Result<Value> {
        Ok(match kind {
            b':' => Value::Number(number),
            b'$' if number < 0 => Value::Nil,
            b'$' => {
                let mut bytes = vec![0; number as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(number as usize);
                Value::Bytes(bytes)
            }
            b'*' => Value::Array(self.values(number)?),
            b'>' => Value::Push(self.values(number)?),
            b'%' => Value::Array(self.values(number * 2)?),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }

    fn values(&mut self, count: i64) -> io::Result<Vec<Value>> {
        (0..count).map(|_| self.value()).collect()
    }
}

fn number(digits: &[u8]) -> io::Result<i64> {
    let text = std::str::from_utf8(digits).map_err(|_| io::ErrorKind::InvalidData)?;
    text.parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// What an answer is expected to be; anything else is a fault of the test or of the server.
pub(crate) trait Expect {
    fn bytes(&self) -> &[u8];
    fn items(&self) -> &[Value];
    /// A number that is told as text.
    fn digits(&self) -> u64;
}

impl Expect for Value {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            other => panic!("{other:?}: not bytes"),
        }
    }

    fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) => items,
            other => panic!("{other:?}: no array"),
        }
    }

    fn digits(&self) -> u64 {
        String::from_utf8_lossy(self.bytes()).parse().expect("digits")
    }
}
