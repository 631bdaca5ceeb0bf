//! The way back alone: what comes on a connection, whoever sends it.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use super::answer::{self, HEAD_LIMIT, Limits, Reply};
use super::faults;
use crate::classify::Fault;

/// What is on its way at once.
const ROOM: usize = 64 * 1024;

/// All is there from the start: nothing is waited for.
const NEVER: Duration = Duration::from_secs(3600);

/// Takes what a gateway answers with these bytes, after which it closes the connection.
pub(crate) async fn take(sent: Bytes, limit: usize) -> Result<Reply, Fault> {
    let (ours, theirs) = duplex(ROOM);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(2 * HEAD_LIMIT);
    let opened = builder.handshake(TokioIo::new(ours)).await;
    let (mut sender, connection) = opened.map_err(|err| faults::on_connection(&err))?;
    let exchange = async move {
        let request = Request::post("/").header(HOST, "gateway").body(Empty::<Bytes>::new());
        let request = request.map_err(|_| Fault::Internal)?;
        let answered = sender.send_request(request).await;
        let (head, body) = answered.map_err(|err| faults::on_connection(&err))?.into_parts();
        answer::sound(&head)?;
        let limits = Limits { bytes: limit, stall: NEVER, end: Instant::now() + NEVER };
        answer::collect(head, body, &limits).await
    };
    // How the connection ends is told by the exchange.
    let (_, (), reply) = tokio::join!(connection, speak(theirs, sent), exchange);
    reply
}

/// Waits to be asked, speaks, and hangs up.
async fn speak(mut stream: DuplexStream, bytes: Bytes) {
    let mut asked = [0; 1024];
    // Whoever hangs up first hears nothing; that is theirs to do.
    if stream.read(&mut asked).await.is_ok() && stream.write_all(&bytes).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}
