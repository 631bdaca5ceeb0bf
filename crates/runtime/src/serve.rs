//! HTTP for whoever listens: the API and the ops port.
//!
//! What no caller can do: hold a connection without getting on (`activity`, `stalled`), send a body
//! for ever (`body`), keep others out with connections that say nothing (`places`), or hold up the end of the process.

mod activity;
mod body;
mod connection;
mod framing;
mod host;
mod places;
mod stalled;
mod tls;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::settings::HttpLimits;

use activity::Activity;
pub use body::{BodyDeadline, BodyTimeout};
use connection::Connections;
pub use framing::frames_its_body;
pub use host::names_its_host;
use places::{Place, Places};
pub use tls::Tls;

/// A listener that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {address} ({setting})")]
pub struct BindError {
    /// The field or flag that names the address.
    setting: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// How many connections may wait until they are accepted; the kernel allows as many as `net.core.somaxconn`.
///
/// The usual 128 are full as soon as a few hundred callers connect at once. Who finds no place there believes to be
/// connected, is not known here, and waits for seconds, or for ever if it sends nothing.
const WAITING: u32 = 4096;

/// Opens a listener on the address that `setting`, a field or a flag, names. It needs a runtime of tokio around it.
pub async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    listen(address).map_err(|source| BindError { setting, address, source })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // The port of a process that has just ended is free for its successor.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// A listener, and the certificate that it shows; none: it speaks without TLS.
pub struct Listening {
    /// Where it listens.
    pub listener: TcpListener,
    /// Its certificate.
    pub tls: Option<Tls>,
}

impl From<TcpListener> for Listening {
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None }
    }
}

/// How long accepting rests when the process has no file descriptor left.
const OUT_OF_FILES: Duration = Duration::from_millis(200);

/// Serves `app` until `stop`; then closes the listener at once and lets running requests end
/// within `drain`.
pub async fn http(
    listening: impl Into<Listening>,
    app: Router,
    limits: HttpLimits,
    drain: Duration,
    stop: CancellationToken,
) -> io::Result<()> {
    let Listening { listener, tls } = listening.into();
    let places = Places::new(limits.max_connections);
    let connections = Connections::new(app, limits, stop.clone());
    let mut open = JoinSet::new();
    while let Some((socket, activity, place)) = next(&listener, &places, &mut open, &stop).await {
        // Answers are small and wanted at once; a socket that refuses is gone already.
        if socket.set_nodelay(true).is_ok() {
            let serving = connections.serve(socket, tls.clone(), activity);
            open.spawn(async move {
                serving.await;
                drop(place);
            });
        }
    }
    drop(listener);
    finish(open, drain).await;
    Ok(())
}

/// How long is waited for a place until those who may leave are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The next connection and its place; none: it is time to stop.
async fn next(
    listener: &TcpListener,
    places: &Places,
    open: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> Option<(TcpStream, Activity, Place)> {
    let socket = loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            Some(ended) = open.join_next() => { note_panic(ended); continue }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => break socket,
            Err(err) if is_of_one_connection(&err) => {}
            Err(err) => {
                warn!(error = %err, "can't accept");
                places.make_room();
                sleep(OUT_OF_FILES).await;
            }
        }
    };
    // From here on: who waited for a place has had no time to say anything.
    loop {
        let activity = Activity::new();
        if let Some(place) = places.take(&activity) {
            return Some((socket, activity, place));
        }
        places.make_room();
        tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            Some(ended) = open.join_next() => note_panic(ended),
            () = places.wait() => {}
            () = sleep(LOOK_AGAIN) => {}
        }
    }
}

/// Whether a failed accept says nothing about the next.
fn is_of_one_connection(err: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(err.kind(), K::ConnectionAborted | K::ConnectionReset | K::ConnectionRefused)
}

/// Lets the open connections end.
async fn finish(mut open: JoinSet<()>, drain: Duration) {
    let ended = timeout(drain, async {
        while let Some(ended) = open.join_next().await {
            note_panic(ended);
        }
    });
    if ended.await.is_err() {
        info!(connections = open.len(), "cut what did not end in time");
        open.shutdown().await;
    }
}

/// A handler that panics costs its connection, and nothing else.
fn note_panic(ended: Result<(), JoinError>) {
    if ended.is_err_and(|err| err.is_panic()) {
        error!("a connection panicked");
    }
}
