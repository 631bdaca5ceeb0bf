//! The handle of a stand-in that runs inside this process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::arrival::{Arrival, Counts};
use crate::place::Place;
use crate::script::{Rule, ScriptError};
use crate::server::{Options, Shared, accept};

/// A running stand-in. Dropped, it and all its connections are gone.
pub struct StandIn {
    shared: Arc<Shared>,
    place: Place,
    stop: CancellationToken,
    /// The accept loop, which owns everything else that runs.
    task: JoinSet<()>,
}

/// What was waited for did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not within {limit:?}; so far {counts:?}")]
pub struct Late {
    /// How long was waited.
    pub limit: Duration,
    /// What there was at the end.
    pub counts: Counts,
}

impl StandIn {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// If no port can be bound, or the log file not be opened.
    pub async fn start(options: Options) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), options).await
    }

    /// Starts one on a given address.
    ///
    /// # Errors
    ///
    /// If the address can't be bound, or the log file not be opened.
    pub async fn start_at(address: SocketAddr, options: Options) -> io::Result<Self> {
        let place = Place::take(address)?;
        let listener = place.listen().await?;
        let shared = Shared::new(&options)?;
        let mut it = Self { shared, place, stop: CancellationToken::new(), task: JoinSet::new() };
        it.run(listener);
        Ok(it)
    }

    fn run(&mut self, listener: TcpListener) {
        self.stop = CancellationToken::new();
        self.task.spawn(accept(listener, Arc::clone(&self.shared), self.stop.clone()));
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.place.address()
    }

    /// Its base URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Stops listening and drops every connection; script and journal stay, for [`Self::start_again`].
    pub async fn stop(&mut self) {
        self.stop.cancel();
        while self.task.join_next().await.is_some() {}
    }

    /// Listens again on the same address, with the same script and journal, after [`Self::stop`].
    ///
    /// # Errors
    ///
    /// If the address can't be bound any more.
    pub async fn start_again(&mut self) -> io::Result<()> {
        self.stop().await;
        let listener = self.place.listen().await?;
        self.run(listener);
        Ok(())
    }

    /// Replaces the script. For each arrival, the first rule that fits and is not used up applies.
    ///
    /// # Errors
    ///
    /// If a rule can't be carried out; then the old script stays.
    pub fn script(&self, rules: Vec<Rule>) -> Result<(), ScriptError> {
        self.shared.script.replace(rules)
    }

    /// With `true`, arrivals wait from now on, before any rule's delay; with `false`, all that wait go on.
    pub fn hold(&self, hold: bool) {
        self.shared.script.hold(hold);
    }

    /// The counts at this moment.
    pub fn counts(&self) -> Counts {
        *self.shared.journal.counts().borrow()
    }

    /// The kept arrivals, in their order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.journal.after(0, usize::MAX)
    }

    /// The arrival with this number, if it is kept.
    pub fn arrival(&self, number: u64) -> Option<Arrival> {
        self.shared.journal.get(number)
    }

    /// The bodies of the kept arrivals, in their order.
    pub fn bodies(&self) -> Vec<Bytes> {
        self.arrivals().into_iter().map(|arrival| arrival.body).collect()
    }

    /// Waits until there were at least so many arrivals.
    ///
    /// # Errors
    ///
    /// If they don't come within `limit`.
    pub async fn wait_for_arrivals(&self, arrivals: u64, limit: Duration) -> Result<Counts, Late> {
        self.wait_until(limit, |counts| counts.arrived >= arrivals).await
    }

    /// Waits until the counts are as `wanted` says.
    ///
    /// # Errors
    ///
    /// If they are not within `limit`.
    pub async fn wait_until(
        &self,
        limit: Duration,
        mut wanted: impl FnMut(&Counts) -> bool,
    ) -> Result<Counts, Late> {
        let mut counts = self.shared.journal.counts();
        let reached = counts.wait_for(|counts| wanted(counts));
        match tokio::time::timeout(limit, reached).await {
            Ok(Ok(counts)) => Ok(*counts),
            // The journal, and with it the sender, lives as long as this handle.
            Ok(Err(_)) | Err(_) => Err(Late { limit, counts: self.counts() }),
        }
    }
}
