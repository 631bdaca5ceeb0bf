//! Accepts connections and speaks HTTP/1.1 or, by prior knowledge, HTTP/2 on them.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::journal::{Journal, Keep};
use crate::routes;
use crate::script::Script;
use crate::wire::{Link, Wire, finish};

/// Rest after a failed accept, which is most often a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Room for the bodies of many streams at once, so that a window never paces an upload.
const HTTP2_WINDOW: u32 = 8 << 20;
/// More than any client opens on one connection.
const HTTP2_STREAMS: u32 = 4096;

/// How a stand-in is to be.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which arrivals are kept in memory.
    pub keep: Keep,
    /// Where each arrival is also written, with all its bytes, as JSON lines: an [`crate::ArrivalLine`] when
    /// it came, `{"number": …, "end": …}` when it ended.
    pub log: Option<PathBuf>,
    /// How long each answer takes, where no rule of the script says otherwise.
    pub delay: Duration,
    /// How many calls it takes at once on a connection of HTTP/2; none: more than a client opens.
    pub streams: Option<u32>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) journal: Arc<Journal>,
    pub(crate) script: Script,
    pub(crate) delay: Duration,
    pub(crate) streams: u32,
}

impl Shared {
    pub(crate) fn new(options: &Options) -> io::Result<Arc<Self>> {
        let journal = Arc::new(Journal::new(options.keep, options.log.as_deref())?);
        let streams = options.streams.unwrap_or(HTTP2_STREAMS);
        Ok(Arc::new(Self { journal, script: Script::default(), delay: options.delay, streams }))
    }
}

/// Serves until `stop` is cancelled; then every open connection is dropped where it stands.
///
/// The future owns all its tasks: dropped, nothing of it goes on.
///
/// # Errors
///
/// If the log file of the options can't be opened.
pub async fn serve(
    listener: TcpListener,
    options: Options,
    stop: CancellationToken,
) -> io::Result<()> {
    accept(listener, Shared::new(&options)?, stop).await;
    Ok(())
}

/// The accept loop.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    warn!(%error, "a connection's task failed");
                }
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, Arc::clone(&shared)))),
                Err(error) => {
                    warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "the connection was gone at once");
        return;
    }
    let (stream, link) = (Arc::new(stream), Arc::new(Link::default()));
    let streams = shared.streams;
    let service = service_fn(|request| {
        let (shared, link) = (Arc::clone(&shared), Arc::clone(&link));
        async move { Ok::<_, Infallible>(routes::answer(shared, link, request).await) }
    });
    let mut http = auto::Builder::new(Streams::default());
    http.http2()
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_WINDOW)
        .max_concurrent_streams(streams);
    let asked = {
        let spoken = http.serve_connection(TokioIo::new(Wire(Arc::clone(&stream))), service);
        tokio::select! {
            // Its errors are clients that went away; the journal says so for each arrival.
            _ = spoken => None,
            ending = link.ended() => Some(ending),
        }
    };
    // Streams of HTTP/2 hold no socket, but are not to outlive it either.
    drop(http);
    if let Some(Err(error)) = match asked {
        Some(ending) => Some(finish(&stream, ending).await),
        None => None,
    } {
        debug!(%error, "the client was gone before the scripted end");
    }
}

/// Runs the streams of one HTTP/2 connection; they end with it.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while streams.try_join_next().is_some() {}
        streams.spawn(stream);
    }
}
