//! A client that shares nothing with the one under test.

use std::io;
use std::time::Duration;

use holdfast_local_redis::resp::{self, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// One connection to a Redis, made when it is needed and made anew when it was lost. Nothing is ever sent twice.
pub struct Client {
    port: u16,
    connection: Mutex<Option<Connection>>,
}

impl Client {
    /// A client of the server on that port of 127.0.0.1. It connects with its first command.
    pub fn new(port: u16) -> Self {
        Self { port, connection: Mutex::new(None) }
    }

    /// Runs one command. An error that the server answers is a [`Value::Error`].
    ///
    /// # Panics
    ///
    /// If there is no answer.
    pub async fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Value {
        let name = words
            .first()
            .map(|word| String::from_utf8_lossy(word.as_ref()).into_owned())
            .unwrap_or_default();
        self.try_command(words)
            .await
            .unwrap_or_else(|err| panic!("redis does not answer {name}: {err}"))
    }

    /// Sends some commands at once, and gives their answers in the same order.
    ///
    /// # Panics
    ///
    /// If there is an answer less.
    pub async fn pipeline<W: AsRef<[u8]>>(&self, commands: &[Vec<W>]) -> Vec<Value> {
        let frames: Vec<Vec<u8>> = commands.iter().map(|words| resp::encode(words)).collect();
        let request = frames.concat();
        let mut held = self.connection.lock().await;
        let mut connection = match held.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => Connection::open(self.port).await.expect("a connection to redis"),
        };
        connection.send(&request).await.expect("redis takes commands");
        let mut answers = Vec::with_capacity(commands.len());
        for _ in commands {
            let answer = timeout(ANSWER_LIMIT, connection.answer()).await;
            answers.push(answer.expect("redis answers in time").expect("redis answers"));
        }
        *held = Some(connection);
        answers
    }

    /// Runs one command on a server that may be away.
    pub async fn try_command<W: AsRef<[u8]>>(&self, words: &[W]) -> io::Result<Value> {
        let request = resp::encode(words);
        let mut held = self.connection.lock().await;
        // Taken out: a call that fails, or is given up half-way, leaves no connection behind.
        let mut connection = match held.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => Connection::open(self.port).await?,
        };
        let answer = timeout(ANSWER_LIMIT, connection.call(&request)).await??;
        *held = Some(connection);
        Ok(answer)
    }
}

/// An open connection, with what was read and not yet used.
pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(port: u16) -> io::Result<Self> {
        let stream = timeout(ANSWER_LIMIT, TcpStream::connect(("127.0.0.1", port))).await??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Sends a whole request and waits for its answer.
    pub(crate) async fn call(&mut self, request: &[u8]) -> io::Result<Value> {
        self.send(request).await?;
        self.answer().await
    }

    /// Sends bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Waits for the next answer.
    pub(crate) async fn answer(&mut self) -> io::Result<Value> {
        loop {
            if let Some((value, used)) = resp::parse(&self.unread).map_err(io::Error::other)? {
                self.unread.drain(..used);
                return Ok(value);
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether the server still holds its end, as far as is known here.
    fn is_open(&self) -> bool {
        let waiting = self.stream.try_read(&mut [0]);
        // Nothing to read is as it should be: no answer is outstanding.
        matches!(waiting, Err(err) if err.kind() == io::ErrorKind::WouldBlock)
    }
}
