//! Two clients: hyper's for whole calls, and a bare socket that sees every byte.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use holdfast_stand_in::{Options, Rule, StandIn};
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, Version};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than anything takes that is to happen.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// How long is looked for what is not to happen.
pub(crate) const QUIET: Duration = Duration::from_millis(150);
pub(crate) const CHAT: &str = "/v1/chat/completions";

/// A stand-in with a script.
pub(crate) async fn scripted(rules: Vec<Rule>) -> StandIn {
    let it = StandIn::start(Options::default()).await.unwrap();
    it.script(rules).unwrap();
    it
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

/// One call on a connection of its own.
pub(crate) async fn call(
    it: &StandIn,
    method: Method,
    path: &str,
    body: impl Into<Bytes>,
) -> Reply {
    call_by(Version::HTTP_11, it.address(), method, path, body.into()).await.unwrap()
}

pub(crate) async fn post(it: &StandIn, path: &str, body: impl Into<Bytes>) -> Reply {
    call(it, Method::POST, path, body).await
}

pub(crate) async fn get(it: &StandIn, path: &str) -> Reply {
    call(it, Method::GET, path, "").await
}

pub(crate) async fn call_by(
    version: Version,
    address: SocketAddr,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
    let mut builder = Client::builder(TokioExecutor::new());
    let client = builder.http2_only(version == Version::HTTP_2).build_http::<Full<Bytes>>();
    let request = Request::builder().method(method).uri(format!("http://{address}{path}"));
    let response = timeout(SOON, client.request(request.body(Full::new(body))?)).await??;
    assert_eq!(response.version(), version);
    let (head, body) = response.into_parts();
    let body = timeout(SOON, body.collect()).await??.to_bytes();
    Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
}

/// A socket on which every byte is ours.
pub(crate) struct Bare(pub(crate) TcpStream);

impl Bare {
    /// Connects, and sends one request.
    pub(crate) async fn post(it: &StandIn, body: &str) -> Self {
        let mut bare = Self(TcpStream::connect(it.address()).await.unwrap());
        bare.send(body).await;
        bare
    }

    pub(crate) async fn send(&mut self, body: &str) {
        let length = body.len();
        let request =
            format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
        self.0.write_all(request.as_bytes()).await.unwrap();
    }

    /// All bytes until the stream's end, and whether it was a reset.
    pub(crate) async fn all(&mut self) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut bytes = Vec::new();
        let end = timeout(SOON, self.0.read_to_end(&mut bytes)).await.expect("the stream ends");
        (bytes, end.err().map(|err| err.kind()))
    }

    /// Bytes until there are this many after the head.
    pub(crate) async fn body(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            if let Some(body) = body_of(&bytes).filter(|body| body.len() >= length) {
                return body.to_vec();
            }
            let read =
                timeout(SOON, self.0.read_buf(&mut bytes)).await.expect("more comes").unwrap();
            assert!(read > 0, "the stream ended after {} bytes", bytes.len());
        }
    }

    /// Exactly so many bytes more.
    pub(crate) async fn more(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        timeout(SOON, self.0.read_exact(&mut bytes)).await.expect("more comes").unwrap();
        bytes
    }

    /// Nothing comes, and the stream stays open.
    pub(crate) async fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        timeout(QUIET, self.0.read(&mut byte)).await.is_err()
    }
}

/// What follows the head.
pub(crate) fn body_of(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(&bytes[head + 4..])
}
