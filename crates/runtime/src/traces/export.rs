//! The task that sends spans to the collector, and that nothing else waits for.
//!
//! Spans gather for a moment and go in one call. A collector that can't be reached is tried again
//! for a while; meanwhile spans wait, as many as there is room for, and what comes to nothing is
//! counted. At the end of the process what is left is sent once.

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use holdfast_core::metrics::{self, SpanOutcome};
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::otlp::{Export, Exported, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span};
use crate::Seldom;

/// The most spans of a call.
const BATCH: usize = 512;

/// How long a span waits for others to go with.
const GATHER: Duration = Duration::from_secs(1);

/// How long one call may take.
const CALL: Duration = Duration::from_secs(5);

/// Pauses before a call is repeated: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// How long a batch is tried for. The spans behind it wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the end of the process may wait for what is left.
const LAST: Duration = Duration::from_secs(2);

/// A connection is not kept longer than common servers keep one.
const IDLE: Duration = Duration::from_secs(4);

/// The longest answer of a collector that is read.
const ANSWER: usize = 64 << 10;

/// Sends what has ended.
pub(crate) struct Exporter {
    collector: Uri,
    client: Client<HttpConnector, Full<Bytes>>,
    resource: Resource,
    ended: mpsc::Receiver<Span>,
    batch: Vec<Span>,
    /// How many spans are in the call that is under way or to be repeated.
    sending: usize,
    warnings: Seldom,
}

/// Why a call came to nothing. Collectors quote what they were sent, so what they say is not told.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("no connection")]
    Unreachable,
    #[error("no answer in time")]
    Late,
    #[error("status {0}")]
    Status(u16),
}

impl Failed {
    /// Whether the same may be taken later.
    fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable | Self::Late => true,
            Self::Status(status) => matches!(status, 429 | 502..=504),
        }
    }
}

impl Exporter {
    /// Connects to nothing yet. `service` is what the process is called, `instance` which one it is.
    pub(super) fn new(
        collector: Uri,
        service: &str,
        instance: Option<&str>,
        ended: mpsc::Receiver<Span>,
    ) -> Self {
        let mut attributes = vec![
            KeyValue::text("service.namespace", "holdfast"),
            KeyValue::text("service.name", service),
            KeyValue::text("service.version", crate::VERSION),
        ];
        attributes.extend(instance.map(|name| KeyValue::text("service.instance.id", name)));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CALL));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        let resource = Resource { attributes };
        let warnings = Seldom::new(Duration::from_secs(60));
        Self { collector, client, resource, ended, batch: Vec::new(), sending: 0, warnings }
    }

    /// Exports until `stop`, then what is left, as far as there is time.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let over = async {
            stop.cancelled().await;
            sleep(LAST).await;
        };
        tokio::select! {
            () = self.work(&stop) => return,
            () = over => {}
        }
        self.ended.close();
        let left = self.batch.len() + self.sending + self.ended.len();
        self.lose(left, &Failed::Late);
    }

    /// Ends once `stop` is cancelled and nothing is left.
    async fn work(&mut self, stop: &CancellationToken) {
        loop {
            self.gather(stop).await;
            if !self.batch.is_empty() {
                self.deliver(stop).await;
            } else if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Takes what has ended; without waiting for more once `stop` is cancelled.
    async fn gather(&mut self, stop: &CancellationToken) {
        let (ended, batch) = (&mut self.ended, &mut self.batch);
        tokio::select! {
            biased;
            first = ended.recv_many(batch, BATCH) => if first == 0 {
                // Nobody begins spans any more.
                stop.cancelled().await;
            },
            () = stop.cancelled() => return,
        }
        let more = async {
            while batch.len() < BATCH && ended.recv_many(batch, BATCH - batch.len()).await > 0 {}
        };
        tokio::select! {
            () = more => {}
            () = sleep(GATHER) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Sends the batch, again and again if need be; once `stop` is cancelled, once.
    async fn deliver(&mut self, stop: &CancellationToken) {
        self.sending = self.batch.len();
        let body = Bytes::from(self.encoded());
        let (since, mut pause) = (Instant::now(), PAUSE);
        loop {
            match self.call(body.clone()).await {
                Ok(refused) => {
                    let refused = refused.min(self.sending);
                    metrics::spans(SpanOutcome::Exported, self.sending - refused);
                    metrics::spans(SpanOutcome::Refused, refused);
                    break;
                }
                Err(why) if !why.is_passing() => {
                    self.refused(&why);
                    break;
                }
                Err(why) if stop.is_cancelled() || since.elapsed() >= PATIENCE => {
                    self.lose(self.sending, &why);
                    break;
                }
                Err(_) => tokio::select! {
                    () = sleep(pause) => pause = (2 * pause).min(LONGEST_PAUSE),
                    () = stop.cancelled() => {}
                },
            }
        }
        self.sending = 0;
    }

    /// The batch as a call, and the next one empty.
    fn encoded(&mut self) -> Vec<u8> {
        let scope = Scope { name: "holdfast".to_owned(), version: crate::VERSION.to_owned() };
        let scope_spans =
            vec![ScopeSpans { scope: Some(scope), spans: mem::take(&mut self.batch) }];
        let resource = Some(self.resource.clone());
        Export { resource_spans: vec![ResourceSpans { resource, scope_spans }] }.encode_to_vec()
    }

    /// One call: how many of its spans the collector refused.
    async fn call(&self, body: Bytes) -> Result<usize, Failed> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.collector.clone();
        let agent = HeaderValue::from_static(concat!("holdfast/", env!("CARGO_PKG_VERSION")));
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, agent);
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|_| Failed::Unreachable)?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER).collect().await;
            if !status.is_success() {
                return Err(Failed::Status(status.as_u16()));
            }
            // It has taken them: what else it says decides nothing.
            let told = body.ok().and_then(|body| Exported::decode(body.to_bytes()).ok());
            let refused = told.and_then(|told| told.partial_success).map(|it| it.rejected_spans);
            Ok(usize::try_from(refused.unwrap_or(0)).unwrap_or(0))
        };
        timeout(CALL, exchange).await.unwrap_or(Err(Failed::Late))
    }

    /// The collector does not want what it was sent.
    fn refused(&self, why: &Failed) {
        let spans = self.sending;
        metrics::spans(SpanOutcome::Refused, spans);
        if let Some(held_back) = self.warnings.now() {
            warn!(spans, error = %why, held_back, "the collector refused spans");
        }
    }

    /// Spans come to nothing.
    fn lose(&self, spans: usize, why: &Failed) {
        if spans == 0 {
            return;
        }
        metrics::spans(SpanOutcome::Lost, spans);
        if let Some(held_back) = self.warnings.now() {
            warn!(spans, error = %why, held_back, "spans are lost: the collector takes none");
        }
    }
}
