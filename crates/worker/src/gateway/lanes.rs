//! The clients of one target, so that no connection of HTTP/2 gets more calls than a server takes there.
//!
//! A client puts every call to a target on one connection of HTTP/2. A server takes only so many at once, most of them about
//! a hundred; what is beyond that would wait inside the client, in a slot and with a lease, and never be sent. So a client
//! gets no more calls than that, and the next ones go by another. With HTTP/1.1 a call has a connection of its own, and one
//! client does.

use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::client::legacy::Client;

use super::Body;
use super::connector::Connector;

/// Makes a client without connections.
type Open = Box<dyn Fn() -> Client<Connector, Body> + Send + Sync>;

/// The clients, those that are used first at first.
pub(super) struct Lanes {
    open: Open,
    most: usize,
    all: Mutex<Vec<Lane>>,
}

struct Lane {
    client: Client<Connector, Body>,
    /// One of its own, and one for each call.
    calls: Arc<()>,
}

/// A call's place on a lane, until it is dropped.
pub(super) struct Place {
    _calls: Arc<()>,
}

impl Lanes {
    /// Clients that take so many calls each; none: one takes all.
    pub(super) fn new(
        open: impl Fn() -> Client<Connector, Body> + Send + Sync + 'static,
        most: Option<usize>,
    ) -> Self {
        Self { open: Box::new(open), most: most.unwrap_or(usize::MAX), all: Mutex::default() }
    }

    /// The first client that has room for a call. Those behind it are left alone when calls become fewer, and their
    /// connections are closed.
    pub(super) fn take(&self) -> (Client<Connector, Body>, Place) {
        // Whole values only are pushed.
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let free = all.iter().position(|lane| Arc::strong_count(&lane.calls) <= self.most);
        let free = free.unwrap_or_else(|| {
            all.push(Lane { client: (self.open)(), calls: Arc::default() });
            all.len() - 1
        });
        let Lane { client, calls } = &all[free];
        (client.clone(), Place { _calls: Arc::clone(calls) })
    }
}
