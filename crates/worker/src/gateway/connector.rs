//! Opens connections: TCP, then TLS with the files as they are now, all within one time-out.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use holdfast_runtime::credentials::Material;
use holdfast_runtime::reread::Reread;
use hyper::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use tokio::time::timeout;
use tower::Service;

use super::stall::Watched;
use crate::classify::Fault;

/// Why there is no connection. The causes stay out: they may quote names and certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConnectFault {
    /// Refused, unreachable, unknown name.
    #[error("no connection")]
    Refused,
    /// Not within the connect time-out.
    #[error("no connection in time")]
    TimedOut,
    /// The handshake failed.
    #[error("no TLS session")]
    Tls,
}

impl From<ConnectFault> for Fault {
    fn from(fault: ConnectFault) -> Self {
        match fault {
            ConnectFault::Refused => Self::Connect,
            ConnectFault::TimedOut => Self::ConnectTimeout,
            ConnectFault::Tls => Self::Tls,
        }
    }
}

/// Opens the connections of one gateway. Each call keeps several copies, so they share what they are made of.
#[derive(Clone)]
pub(super) struct Connector(Arc<Way>);

/// How connections are opened.
struct Way {
    tcp: HttpConnector,
    material: Arc<Reread<Material>>,
    connect_timeout: Duration,
    /// `None` where connections carry many requests at once.
    stall_timeout: Option<Duration>,
}

impl Connector {
    /// A connector; `stall_timeout` only where HTTP/1 may be spoken.
    pub(super) fn new(
        material: Arc<Reread<Material>>,
        connect_timeout: Duration,
        stall_timeout: Option<Duration>,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // A model may think for longer than what stands between remembers a connection that says nothing.
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        tcp.set_keepalive_interval(Some(Duration::from_secs(10)));
        tcp.set_keepalive_retries(Some(3));
        // Shared out over the addresses of a name, so that a dead one does not use up all of it.
        tcp.set_connect_timeout(Some(connect_timeout));
        Self(Arc::new(Way { tcp, material, connect_timeout, stall_timeout }))
    }
}

/// What a connection is made of. Boxed: the state of TLS is large, and a connection without it would keep the room for it
/// several times over; and over HTTP/2 each call keeps the room of a connection.
pub(super) type Stream = Box<dyn Io>;

/// Bytes from and to a target, over TLS or not.
pub(super) trait Io: Read + Write + Connection + Send + Unpin {}

impl<T: Read + Write + Connection + Send + Unpin> Io for T {}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        (**self).connected()
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectFault;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, ConnectFault>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        // The name resolver behind it is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let Way { tcp, material, connect_timeout, stall_timeout } = &*self.0;
        let tls = material.current().tls.clone();
        let connecting = HttpsConnector::from((tcp.clone(), tls)).call(to);
        let (connect_timeout, stall_timeout) = (*connect_timeout, *stall_timeout);
        Box::pin(async move {
            let stream = match timeout(connect_timeout, connecting).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(err)) => return Err(stage(err.as_ref())),
                Err(_) => return Err(ConnectFault::TimedOut),
            };
            let shared = stream.connected().is_negotiated_h2();
            let limit = stall_timeout.filter(|_| !shared);
            Ok(match stream {
                MaybeHttpsStream::Http(plain) => watched(plain, limit),
                tls @ MaybeHttpsStream::Https(_) => watched(tls, limit),
            })
        })
    }
}

/// A connection that notices when an answer stalls, if there is a limit.
fn watched(io: impl Io + 'static, limit: Option<Duration>) -> Stream {
    match limit {
        Some(limit) => Box::new(Watched::new(io, limit)),
        None => Box::new(io),
    }
}

/// Which stage failed: TLS reports an `io::Error`, TCP an error of its own with one behind it.
fn stage(err: &(dyn std::error::Error + 'static)) -> ConnectFault {
    if err.is::<io::Error>() {
        return ConnectFault::Tls;
    }
    let mut cause = err.source();
    while let Some(link) = cause {
        let late = |io: &io::Error| io.kind() == io::ErrorKind::TimedOut;
        if link.downcast_ref().is_some_and(late) {
            return ConnectFault::TimedOut;
        }
        cause = link.source();
    }
    ConnectFault::Refused
}
