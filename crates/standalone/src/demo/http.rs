//! A small HTTP client: towards the API and the ops ports, as anybody would use them.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

/// Longer than any wait that is asked for here.
const LIMIT: Duration = Duration::from_secs(30);

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("no request can be made to {url}")]
    Url { url: String, source: hyper::http::Error },
    #[error("no answer from {url}")]
    None { url: String, source: Error },
    #[error("half an answer from {url}")]
    Cut { url: String, source: hyper::Error },
    #[error("no answer from {url} within {} s", LIMIT.as_secs())]
    Late { url: String },
}

/// An answer, whatever it says.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A header as text; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        value.unwrap_or_default().into_owned()
    }
}

/// A client that keeps its connections. Clones share them.
#[derive(Clone)]
pub(crate) struct Http(Client<HttpConnector, Full<Bytes>>);

impl Http {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
    }

    pub(crate) async fn get(&self, url: &str) -> Result<Answer, NoAnswer> {
        self.call(Method::GET, url, Bytes::new()).await
    }

    pub(crate) async fn post_json(&self, url: &str, body: Bytes) -> Result<Answer, NoAnswer> {
        self.call(Method::POST, url, body).await
    }

    async fn call(&self, method: Method, url: &str, body: Bytes) -> Result<Answer, NoAnswer> {
        let there = || url.to_owned();
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|source| NoAnswer::Url { url: there(), source })?;
        let whole = async {
            let answer = self.0.request(request).await;
            let answer = answer.map_err(|source| NoAnswer::None { url: there(), source })?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await;
            let body = body.map_err(|source| NoAnswer::Cut { url: there(), source })?.to_bytes();
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        timeout(LIMIT, whole).await.unwrap_or_else(|_| Err(NoAnswer::Late { url: there() }))
    }
}
