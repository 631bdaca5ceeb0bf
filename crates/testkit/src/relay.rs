//! A TCP relay that passes bytes and knows nothing of them: an address that can be moved to another server, and behind
//! which a server can be cut off. What has to know single requests is [`Proxy`](crate::Proxy).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// By this much of what it sends a sentinel or a replica is told from a client: both give their name at once.
const INTRODUCTION: usize = 512;

/// An address of its own in front of a server. Dropped, it and its connections are gone.
pub struct Relay {
    shared: Arc<Shared>,
    port: u16,
    _accepting: JoinSet<()>,
}

/// Whose bytes pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Open,
    /// Nobody's: connections stand, and what is sent is kept.
    Closed,
    /// Those of clients, but not of sentinels and replicas.
    ClosedToPeers,
}

struct Shared {
    server: AtomicU16,
    line: watch::Sender<Line>,
    cut: Mutex<CancellationToken>,
}

impl Relay {
    /// A relay that leads to the server on that port of 127.0.0.1.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", crate::free_port()))
            .await
            .expect("a port for the relay");
        let port = listener.local_addr().expect("the relay's port").port();
        let (server, line) = (AtomicU16::new(server), watch::Sender::new(Line::Open));
        let shared = Arc::new(Shared { server, line, cut: Mutex::default() });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&shared)));
        Self { shared, port, _accepting: accepting }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it listens, as `redis.url` wants it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Leads new connections to another server, as a name that now means another host does. Those that stand go on.
    pub fn lead_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::Relaxed);
    }

    /// Lets nothing pass in either direction, until [`restore`](Self::restore): all that is sent arrives then.
    pub fn cut_off(&self) {
        self.shared.line.send_replace(Line::Closed);
    }

    /// The same for sentinels and replicas alone: clients still reach the server.
    pub fn cut_off_from_peers(&self) {
        self.shared.line.send_replace(Line::ClosedToPeers);
    }

    /// Lets everything pass again.
    pub fn restore(&self) {
        self.shared.line.send_replace(Line::Open);
    }

    /// Ends every connection that stands.
    pub fn end_all(&self) {
        let mut cut = self.shared.cut.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *cut).cancel();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A client that is gone already needs no service.
                let Ok((client, _)) = accepted else { continue };
                connections.spawn(serve(client, Arc::clone(&shared)));
            }
            Some(served) = connections.join_next() => served.expect("the relay's own code"),
        }
    }
}

async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let cut = shared.cut.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let carried = async {
        let server = TcpStream::connect(("127.0.0.1", shared.server.load(Ordering::Relaxed)));
        carry(client, server.await?, &shared.line).await
    };
    // Whichever end breaks first: for the other it's the same as a cut.
    cut.run_until_cancelled(carried).await.map(drop).unwrap_or_default();
}

/// Carries a connection until one of its ends breaks.
async fn carry(client: TcpStream, server: TcpStream, line: &watch::Sender<Line>) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_peer = AtomicBool::new(false);
    tokio::select! {
        done = pass(from_client, to_server, line, &is_peer, true) => done,
        done = pass(from_server, to_client, line, &is_peer, false) => done,
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    line: &watch::Sender<Line>,
    is_peer: &AtomicBool,
    is_asking: bool,
) -> io::Result<()> {
    let (mut chunk, mut introduction) = (vec![0; 1 << 16], Vec::<u8>::new());
    loop {
        let read = from.read(&mut chunk).await?;
        let bytes = chunk.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(());
        }
        if is_asking && introduction.len() < INTRODUCTION {
            introduction.extend(bytes.iter().take(INTRODUCTION));
            let says = |word: &[u8]| introduction.windows(word.len()).any(|it| it == word);
            if says(b"sentinel-") || says(b"REPLCONF") || says(b"replconf") {
                is_peer.store(true, Ordering::Relaxed);
            }
        }
        let may_pass = |line: &Line| match line {
            Line::Open => true,
            Line::Closed => false,
            Line::ClosedToPeers => !is_peer.load(Ordering::Relaxed),
        };
        // The sender lives as long as this connection.
        line.subscribe().wait_for(may_pass).await.map_err(io::Error::other)?;
        to.write_all(bytes).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::{Client, RedisServer, Value};

    /// Long enough for an answer that comes, short enough to wait for one that does not.
    const BRIEF: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_relay_that_is_moved_leads_new_connections_elsewhere_and_leaves_the_old() {
        let (first, second) = (RedisServer::start().await, RedisServer::start().await);
        second.command(&["SET", "who", "second"]).await;
        let relay = Relay::start(first.port()).await;
        let early = Client::new(relay.port());
        assert_eq!(early.command(&["GET", "who"]).await, Value::Nil);
        relay.lead_to(second.port());
        assert_eq!(early.command(&["GET", "who"]).await, Value::Nil, "the old one stands");
        assert_eq!(Client::new(relay.port()).command(&["GET", "who"]).await, Value::from("second"));
        relay.end_all();
        let late = crate::eventually("it is cut", Duration::from_secs(5), async || {
            match early.try_command(&["GET", "who"]).await {
                Ok(Value::Bytes(who)) => Ok(who),
                other => Err(format!("{other:?}")),
            }
        });
        assert_eq!(late.await, b"second");
    }

    #[tokio::test]
    async fn what_is_sent_while_a_relay_is_cut_off_arrives_later() {
        let redis = RedisServer::start().await;
        let relay = Relay::start(redis.port()).await;
        let client = Client::new(relay.port());
        client.command(&["PING"]).await;
        relay.cut_off();
        let asked = client.command(&["PING"]);
        tokio::pin!(asked);
        assert!(timeout(BRIEF, &mut asked).await.is_err(), "it passed");
        relay.restore();
        assert_eq!(asked.await, Value::Simple("PONG".into()));
    }

    #[tokio::test]
    async fn peers_are_told_from_clients() {
        let redis = RedisServer::start().await;
        let relay = Relay::start(redis.port()).await;
        let (client, peer) = (Client::new(relay.port()), Client::new(relay.port()));
        peer.command(&["CLIENT", "SETNAME", "sentinel-0123abcd-cmd"]).await;
        relay.cut_off_from_peers();
        assert_eq!(client.command(&["PING"]).await, Value::Simple("PONG".into()));
        assert!(timeout(BRIEF, peer.command(&["PING"])).await.is_err(), "a peer passed");
    }
}
