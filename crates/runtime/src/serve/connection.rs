//! One connection, from accept to its end.
//!
//! HTTP/1.1 alone: with HTTP/2 a caller could hold a stream by a window of nothing, and without TLS
//! hardly anybody speaks it. So TLS agrees on nothing else either.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

use super::activity::Activity;
use super::body::{BodyDeadline, RunningBody, TimedBody};
use super::stalled::Stalled;
use super::tls::Tls;
use crate::settings::HttpLimits;

/// What is left to an idle connection once the process stops: time to flush the last answer.
const FLUSH: Duration = Duration::from_millis(200);

/// The smallest buffer that hyper takes.
const SMALLEST_BUFFER: usize = 8 << 10;

/// What all connections of a listener share.
#[derive(Clone)]
pub(super) struct Connections {
    app: Router,
    limits: HttpLimits,
    builder: Builder,
    stop: CancellationToken,
}

impl Connections {
    pub(super) fn new(app: Router, limits: HttpLimits, stop: CancellationToken) -> Self {
        let head = usize::try_from(limits.max_head).unwrap_or(usize::MAX).max(SMALLEST_BUFFER);
        let mut builder = Builder::new();
        builder
            // `Activity` does this, for silence as well.
            .header_read_timeout(None)
            .max_headers(limits.max_headers)
            .max_buf_size(head);
        Self { app, limits, builder, stop }
    }

    /// Serves a connection until it ends, stalls, or the process stops.
    pub(super) fn serve(
        &self,
        socket: TcpStream,
        tls: Option<Tls>,
        activity: Activity,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (this, idle_timeout) = (self.clone(), self.limits.idle_timeout);
        async move {
            let socket = Stalled::new(socket, activity.clone(), idle_timeout);
            let Some(tls) = tls else { return this.converse(socket, activity).await };
            let agreed = tokio::select! {
                agreed = tls.accept(socket, idle_timeout) => agreed,
                () = activity.idle(idle_timeout) => return,
                () = this.stop.cancelled() => return,
            };
            match agreed {
                Ok(session) => this.converse(session, activity).await,
                Err(_) => debug!("no tls session"),
            }
        }
    }

    /// Answers what comes in, as long as the connection gets on.
    async fn converse(self, socket: impl AsyncRead + AsyncWrite + Unpin, activity: Activity) {
        let Self { app, limits, builder, stop } = self;
        let HttpLimits { idle_timeout, body_timeout, .. } = limits;
        let answering = activity.clone();
        let service = service_fn(move |request| {
            answer(app.clone(), answering.clone(), request, body_timeout)
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        tokio::select! {
            ended = connection.as_mut() => return note_end(ended),
            () = activity.idle(idle_timeout) => return,
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = connection.as_mut() => note_end(ended),
            () = activity.idle(FLUSH) => {}
        }
    }
}

/// Answers one request; it runs until its answer is handed over.
async fn answer(
    app: Router,
    activity: Activity,
    request: Request<Incoming>,
    body_timeout: Duration,
) -> Result<Response<RunningBody>, Infallible> {
    let running = activity.begin();
    let deadline = BodyDeadline::new(body_timeout);
    let mut request =
        request.map(|body| Body::new(TimedBody::new(body, deadline.clone(), activity.clone())));
    request.extensions_mut().insert(deadline);
    let response = app.oneshot(request).await?;
    Ok(response.map(|inner| RunningBody { inner, _running: running }))
}

/// A connection that breaks is the peer's business. The error's text may quote what it sent.
fn note_end<E>(ended: Result<(), E>) {
    if ended.is_err() {
        debug!("a connection broke");
    }
}
