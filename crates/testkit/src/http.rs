//! A plain HTTP/1.1 client for the roles' APIs: a status is an answer, never an error.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use crate::open_files;

/// Longer than the longest wait that the API grants.
const LIMIT: Duration = Duration::from_secs(330);

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status, for example 202.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A header that stands there once, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?;
        assert!(values.next().is_none(), "{name} stands there more than once");
        Some(first.to_str().expect("a header of text"))
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }
}

/// A client that keeps its connections alive. It belongs to the runtime on which it was first used.
#[derive(Clone)]
pub struct Http(Client<HttpConnector, Full<Bytes>>);

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}

impl Http {
    /// A client without connections yet.
    pub fn new() -> Self {
        open_files::raise_limit();
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
    }

    /// Sends a request and reads its answer.
    ///
    /// # Panics
    ///
    /// If there is no whole answer.
    pub async fn request(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.try_request(method, url, headers, body)
            .await
            .unwrap_or_else(|err| panic!("{method} {url}: {err}"))
    }

    /// The same to a server that may be away; the error says how far it got. Nothing is sent a second time, unless a
    /// kept connection turns out to be closed before anything was sent.
    pub async fn try_request(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = Request::builder().method(method).uri(url);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Full::new(body.into())).expect("a request");
        let whole = async {
            let answer = self
                .0
                .request(request)
                .await
                .map_err(|err| format!("no answer: {}", chain(&err)))?;
            let (head, body) = answer.into_parts();
            let body =
                body.collect().await.map_err(|err| format!("cut in its body: {}", chain(&err)))?;
            Ok(Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.to_bytes(),
            })
        };
        timeout(LIMIT, whole)
            .await
            .unwrap_or_else(|_| Err(format!("no whole answer within {LIMIT:?}")))
    }
}

/// Sends one request on a connection of its own; with many, use [`Http`].
///
/// # Panics
///
/// If there is no whole answer.
pub async fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    Http::new().request(method, url, headers, body).await
}

/// An error with its causes.
fn chain(err: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(err), |err| err.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Reads one request to its end, which is where its body says so.
    async fn read_until(stream: &mut tokio::net::TcpStream, end: &[u8]) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end) {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "cut");
        }
        String::from_utf8(read).unwrap()
    }

    #[tokio::test]
    async fn requests_share_a_connection_and_answers_come_back_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/thing?n=1", listener.local_addr().unwrap());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let first = read_until(&mut stream, b"hello").await;
            stream
                .write_all(b"HTTP/1.1 202 Accepted\r\nX-Id: 7\r\nContent-Length: 2\r\n\r\nok")
                .await
                .unwrap();
            read_until(&mut stream, b"\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            first
        };
        let http = Http::new();
        let client = async {
            let first = http.request("POST", &url, &[("Prefer", "wait=1")], "hello").await;
            (first, http.request("GET", &url, &[], "").await)
        };
        let (sent, (first, second)) = tokio::join!(server, client);
        assert!(
            sent.starts_with("POST /v1/thing?n=1 HTTP/1.1\r\n")
                && sent.contains("prefer: wait=1\r\n"),
            "{sent}"
        );
        assert_eq!((first.status, first.header("x-id"), first.text()), (202, Some("7"), "ok"));
        assert_eq!((second.status, second.header("x-id"), second.text()), (404, None, ""));
    }

    #[tokio::test]
    async fn an_answer_that_is_cut_is_an_error_and_so_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_until(&mut stream, b"\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await.unwrap();
        };
        let http = Http::new();
        let ((), cut) = tokio::join!(server, http.try_request("GET", &url, &[], ""));
        assert!(cut.unwrap_err().starts_with("cut in its body"));
        drop(listener);
        assert!(http.try_request("GET", &url, &[], "").await.unwrap_err().starts_with("no answer"));
    }
}
