//! A TCP proxy in front of Redis that makes the network's faults happen on demand.
//!
//! It reads requests and answers as frames, so that pipelined requests meet their own answers. Faults are chosen by a
//! look at a request's words:
//!
//! ```no_run
//! # async fn example(redis: holdfast_testkit::RedisServer, settle_sha: &str) {
//! use std::time::Duration;
//! use holdfast_testkit::proxy::{Fault, Proxy, When, evalsha};
//!
//! let proxy = Proxy::start(redis.port()).await;
//! let lost = proxy.inject(Fault::LoseReply, When::Nth(1), evalsha(settle_sha));
//! // … a worker on proxy.url() settles …
//! lost.wait_fired(1, Duration::from_secs(5)).await;
//! # }
//! ```
//!
//! [`Fault::HoldRequest`] and [`Proxy::release_held`] make a first copy of a call arrive after its repeat was answered.

mod connection;
mod fault;
mod frames;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::fault::{Fault, Injected, When, anything, command, contains, evalsha};
use self::fault::{Matching, Rule};
use crate::Value;
use crate::redis::Connection;

/// A proxy on a port of its own. Dropped, it and its connections are gone.
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
    _accepting: JoinSet<()>,
}

/// What the whole line does, whatever is asked on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Open,
    /// Connections stand, nothing passes; what is sent is kept.
    Silent,
    /// Connections are cut as they are made.
    Down,
}

struct Shared {
    server: u16,
    rules: Mutex<Vec<Arc<Rule>>>,
    held: Mutex<Vec<Vec<u8>>>,
    line: watch::Sender<Line>,
    /// Cancelled and replaced to cut what stands.
    cut: Mutex<CancellationToken>,
    open: watch::Sender<usize>,
}

impl Proxy {
    /// A proxy in front of the Redis on that port of 127.0.0.1.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", crate::free_port()))
            .await
            .expect("a port for the proxy");
        let port = listener.local_addr().expect("the proxy's port").port();
        let shared = Arc::new(Shared {
            server,
            rules: Mutex::default(),
            held: Mutex::default(),
            line: watch::Sender::new(Line::Open),
            cut: Mutex::default(),
            open: watch::Sender::new(0),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&shared)));
        Self { shared, port, _accepting: accepting }
    }

    /// Where it listens, as `redis.url` wants it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Makes a fault happen to requests whose words match, from now on. Of several faults for one request the one that
    /// was injected first happens.
    pub fn inject(
        &self,
        fault: Fault,
        when: When,
        matching: impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static,
    ) -> Injected {
        self.add(Some(fault), when, Box::new(matching))
    }

    /// Counts requests whose words match, and does nothing to them.
    pub fn count(&self, matching: impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static) -> Injected {
        self.add(None, When::Each, Box::new(matching))
    }

    fn add(&self, fault: Option<Fault>, when: When, matching: Matching) -> Injected {
        let rule = Arc::new(Rule::new(fault, when, matching));
        lock(&self.shared.rules).push(Arc::clone(&rule));
        Injected(rule)
    }

    /// Takes all faults and counts away. The line stays as it is.
    pub fn clear(&self) {
        lock(&self.shared.rules).clear();
    }

    /// How many requests are held.
    pub fn held(&self) -> usize {
        lock(&self.shared.held).len()
    }

    /// Sends every held request to the server now, in the order in which they came, and gives the answers.
    pub async fn release_held(&self) -> Vec<Value> {
        let held = std::mem::take(&mut *lock(&self.shared.held));
        let mut answers = Vec::new();
        for request in held {
            let connection = Connection::open(self.shared.server).await;
            let mut connection = connection.expect("the server takes a connection");
            answers
                .push(connection.call(&request).await.expect("the server answers a held request"));
        }
        answers
    }

    /// Lets nothing pass in either direction: connections stand, new ones too, and all that is sent is kept until
    /// [`restore`](Self::restore).
    pub fn black_hole(&self) {
        self.shared.line.send_replace(Line::Silent);
    }

    /// Cuts every connection, and each new one at once, until [`restore`](Self::restore).
    pub fn go_down(&self) {
        self.shared.line.send_replace(Line::Down);
        self.cut_all();
    }

    /// Ends a black hole or a downtime.
    pub fn restore(&self) {
        self.shared.line.send_replace(Line::Open);
    }

    /// Cuts every connection that stands. New ones are served.
    pub fn cut_all(&self) {
        std::mem::take(&mut *lock(&self.shared.cut)).cancel();
    }

    /// How many connections stand.
    pub fn connections(&self) -> usize {
        *self.shared.open.borrow()
    }
}

/// Serves connections until the proxy is dropped, and all of them with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // A client that is gone already needs no service; neither does one that comes while the line is down.
                let Ok((client, _)) = accepted else { continue };
                // Taken before the look at the line: a cut in between hits this connection too.
                let cut = lock(&shared.cut).clone();
                if *shared.line.borrow() != Line::Down {
                    connections.spawn(serve(client, cut, Arc::clone(&shared)));
                }
            }
            Some(served) = connections.join_next() => served.expect("the proxy's own code"),
        }
    }
}

async fn serve(client: TcpStream, cut: CancellationToken, shared: Arc<Shared>) {
    shared.open.send_modify(|open| *open += 1);
    // Whichever end breaks first: for the client it's the same as a cut.
    if let Ok(server) = TcpStream::connect(("127.0.0.1", shared.server)).await {
        cut.run_until_cancelled(connection::pump(client, server, &shared))
            .await
            .map(drop)
            .unwrap_or_default();
    }
    shared.open.send_modify(|open| *open -= 1);
}

/// The lists stay whole whatever panics beside them.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
