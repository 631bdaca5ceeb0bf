//! The call to a queue's target: exact bytes out, exact bytes in, and a fault with a stable name
//! for everything that can go wrong between.
//!
//! Nothing is sent twice from here: a retry is the queue's business. (The client below moves a
//! request to another connection only while none of it was written.) Dropping a call's future
//! closes its connection, so that the gateway sees that nobody waits any more.
//!
//! Layout: `connector` (TCP and TLS), `lanes` (how many calls share a connection), `stall` (silence half-way), `answer`
//! (the way back), `events` (the end of a stream), `faults` (the client's errors, sorted), `taken` (the way back alone).

mod answer;
mod connector;
mod events;
mod faults;
mod lanes;
mod stall;
mod taken;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use holdfast_runtime::credentials::{self, Material};
use holdfast_runtime::reread::{Reread, Unusable};
use holdfast_runtime::settings::Credentials;
use http_body::{Frame, SizeHint};
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT,
};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::answer::Limits;
pub(crate) use self::answer::{Answer, KEPT_HEAD, KEPT_HEADERS, Reply};
use self::connector::Connector;
use self::lanes::Lanes;
pub(crate) use self::taken::take;
use crate::classify::Fault;

/// How long a connection is kept unused: below the 5 s after which common servers close it, since
/// a request written into a closing connection is lost and has to be retried.
const IDLE: Duration = Duration::from_secs(4);

/// [`Target::silence`], but for tests.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// So many times as long it is given to say that it lives: longer than a server may be held up, a load of its model included.
const ASKED: u32 = 5;
/// How long that is, but for tests.
pub(crate) const ASKED_FOR: Duration = SILENCE.saturating_mul(ASKED);

/// The version of HTTP that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    /// What TLS agrees on; 1.1 without TLS.
    Auto,
    /// Always 1.1.
    One,
    /// Always 2, also without TLS.
    Two,
}

/// A queue's target, as its settings say.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Scheme, host, and what stands before every path.
    pub(crate) base: Uri,
    /// Credential and TLS material.
    pub(crate) credentials: Credentials,
    /// Version of HTTP.
    pub(crate) http: Http,
    /// Calls that share a connection of HTTP/2.
    pub(crate) streams: usize,
    /// For TCP and TLS together.
    pub(crate) connect_timeout: Duration,
    /// For silence after the first byte of an answer.
    pub(crate) stall_timeout: Duration,
    /// For all of it.
    pub(crate) attempt_timeout: Duration,
    /// How long a connection of HTTP/2 on which calls wait may be silent before it is asked whether it lives.
    pub(crate) silence: Duration,
    /// The longest body that is taken.
    pub(crate) answer_limit: usize,
}

/// One request, ready to be sent.
#[derive(Debug)]
pub(crate) struct Call {
    /// Where to; by [`Gateway::at`].
    pub(crate) uri: Uri,
    /// What goes beside the body: allow-listed headers, request id, trace context.
    pub(crate) headers: HeaderMap,
    /// The exact bytes.
    pub(crate) body: Bytes,
}

/// Whether anything of a call may have left for the gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent(Arc<(AtomicBool, Notify)>);

impl Sent {
    /// True from just before the first byte is written.
    pub(crate) fn get(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }

    /// Ends when it is true.
    pub(crate) async fn wait(&self) {
        let (_, told) = &*self.0;
        // Hears what is told from here on, also before it is first polled.
        let told = told.notified();
        if !self.get() {
            told.await;
        }
    }

    fn set(&self) {
        let (sent, told) = &*self.0;
        if !sent.swap(true, Ordering::AcqRel) {
            told.notify_waiters();
        }
    }
}

/// The client of one target.
pub(crate) struct Gateway {
    lanes: Lanes,
    material: Arc<Reread<Material>>,
    target: Target,
}

impl Gateway {
    /// Reads the target's files; connects to nothing yet.
    pub(crate) fn open(target: Target) -> Result<Self, Unusable> {
        let alpn: &[&[u8]] = match target.http {
            Http::Auto => &[b"h2", b"http/1.1"],
            Http::One => &[b"http/1.1"],
            Http::Two => &[b"h2"],
        };
        let alpn = alpn.iter().map(|name| name.to_vec()).collect();
        let material = credentials::open(&target.credentials, roots(&target)?, alpn)?;
        let material = Arc::new(material);
        let stall = (target.http != Http::Two).then_some(target.stall_timeout);
        let connector = Connector::new(Arc::clone(&material), target.connect_timeout, stall);
        let head_limit = u32::try_from(answer::HEAD_LIMIT).unwrap_or(u32::MAX);
        let mut client = Client::builder(TokioExecutor::new());
        client
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .timer(TokioTimer::new())
            .http1_max_buf_size(2 * answer::HEAD_LIMIT)
            .http2_max_header_list_size(head_limit)
            // Only while a call waits there: one that is idle is not kept for so long.
            .http2_keep_alive_interval(target.silence)
            .http2_keep_alive_timeout(ASKED * target.silence)
            .http2_only(target.http == Http::Two);
        let open = move || client.build(connector.clone());
        let may_share = match target.http {
            Http::One => false,
            Http::Auto => target.base.scheme() == Some(&Scheme::HTTPS),
            Http::Two => true,
        };
        let lanes = Lanes::new(open, may_share.then_some(target.streams));
        Ok(Self { lanes, material, target })
    }

    /// The address of `path` (it starts with a slash, and may have a query) under the target. None,
    /// if that is none, or if a reader of it could find another origin or path in it.
    pub(crate) fn at(&self, path: &str) -> Option<Uri> {
        let prefix = self.target.base.path().trim_end_matches('/');
        let path = path.starts_with('/').then(|| format!("{prefix}{path}"))?;
        let mut parts = self.target.base.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::try_from(path.as_str()).ok()?);
        let uri = Uri::from_parts(parts).ok()?;
        let read: Uri = uri.to_string().parse().ok()?;
        let same_origin = read.scheme() == self.target.base.scheme()
            && read.authority() == self.target.base.authority();
        let same_path = read.path_and_query().is_some_and(|read| read.as_str() == path);
        (same_origin && same_path).then_some(uri)
    }

    /// Reads credential and TLS files again; true if they changed. Blocks on the file system.
    pub(crate) fn reread(&self) -> Result<bool, Unusable> {
        self.material.look()
    }

    /// Sends a request and takes the answer, whatever its status.
    ///
    /// The request goes to the client before anything is awaited: a call in flight keeps no room for it beside the client's.
    pub(crate) fn send(
        &self,
        call: Call,
        sent: Sent,
    ) -> impl Future<Output = Result<Reply, Fault>> + Send + use<> {
        let mut request = self.request(call, sent.clone());
        let connection = capture_connection(&mut request);
        let limits = Limits {
            bytes: self.target.answer_limit,
            stall: self.target.stall_timeout,
            end: Instant::now() + self.target.attempt_timeout,
        };
        let (client, lane) = self.lanes.take();
        let response = client.request(request);
        async move {
            // Until the call is over.
            let _lane = lane;
            let reply = match exchange(response, &connection, limits).await {
                // Whatever time there was for that: no connection stood, and the target has seen nothing. Where one stands,
                // its server takes no more calls on it than it answers.
                Err(Fault::Unanswered)
                    if !sent.get() && connection.connection_metadata().is_none() =>
                {
                    Err(Fault::ConnectTimeout)
                }
                reply => reply,
            };
            let (Err(fault) | Ok(Reply::Broken(_, fault))) = reply else { return reply };
            if let Fault::Stall | Fault::Unanswered | Fault::AttemptTimeout = fault {
                // Of HTTP/2, which is not closed with its call: it may be dead, and the next call is not to find that out
                // again.
                give_up(&connection);
            }
            reply
        }
    }

    fn request(&self, call: Call, sent: Sent) -> Request<Body> {
        let Call { uri, mut headers, body } = call;
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        let agent = HeaderValue::from_static(concat!("holdfast/", env!("CARGO_PKG_VERSION")));
        headers.entry(USER_AGENT).or_insert(agent);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        // A caller never speaks with a credential of its own.
        match &self.material.current().authorization {
            Some(authorization) => headers.insert(AUTHORIZATION, authorization.clone()),
            None => headers.remove(AUTHORIZATION),
        };
        let mut request = Request::new(Box::new(Outgoing { body: Some(body), sent }));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        request
    }
}

/// Waits for the head of an answer, and takes what follows.
async fn exchange(
    response: ResponseFuture,
    connection: &CaptureConnection,
    limits: Limits,
) -> Result<Reply, Fault> {
    let response = timeout_at(limits.end, response).await.map_err(|_| Fault::Unanswered)?;
    let (head, body) = response.map_err(|err| faults::before_head(&err))?.into_parts();
    if let Err(fault) = answer::sound(&head) {
        // What follows such a head may be anything.
        give_up(connection);
        return Err(fault);
    }
    // Boxed: most of a call's time is before its head, and it would keep the room for what comes behind all the while.
    Box::pin(answer::collect(head, body, &limits)).await
}

/// Lets no other call go by this connection; those that it has may end.
fn give_up(connection: &CaptureConnection) {
    if let Some(connection) = &*connection.connection_metadata() {
        connection.poison();
    }
}

/// Whom a target is trusted by beside its own `ca_file`: where it has none, by the system's certificates.
fn roots(target: &Target) -> Result<RootCertStore, Unusable> {
    let mut roots = RootCertStore::empty();
    let tls = target.base.scheme() == Some(&Scheme::HTTPS);
    if tls && target.credentials.ca_file.is_none() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let rule = "is not set, and the system has no certificates to trust";
            return Err(Unusable::new("ca_file", rule));
        }
    }
    Ok(roots)
}

/// As the client takes it. Boxed: its channels and futures keep the room of a whole request many times over.
type Body = Box<Outgoing>;

/// The body of a request, which notes when the connection first looks at it: that is when the head
/// is written. An empty one is never asked for, only whether it is at its end.
struct Outgoing {
    body: Option<Bytes>,
    sent: Sent,
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.sent.set();
        Poll::Ready(self.body.take().map(|body| Ok(Frame::data(body))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent.set();
        self.body.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.body.as_ref().map_or(0, |body| body.len() as u64))
    }
}
